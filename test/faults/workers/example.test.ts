// The worker of examples/worker, apart from its web processes; also what SIGTERM does to a busy one.
import assert from 'node:assert/strict'
import { test } from 'node:test'
import { Client } from '../../http/kit/reference.js'
import { ServerProcess, stopAfterwards } from '../../http/kit/process.js'
import { redisForFile } from '../../servers/redis-server.js'
import { program } from '../../servers/program.js'
import { eventually } from '../../kit/wait.js'

stopAfterwards()
const { url } = await redisForFile()

async function startWorker(env: Record<string, string> = {}): Promise<ServerProcess> {
  const worker = new ServerProcess(process.execPath, program('examples/worker/main.ts'), { REDIS_URL: url, ...env })
  await worker.said(/The worker is ready/)
  return worker
}

const web = new ServerProcess(process.execPath, program('examples/worker/web.ts'), { REDIS_URL: url, PORT: '0' })
const client = new Client(await web.url())

async function begin(): Promise<string> {
  const { status, headers } = await client.ask('POST', '/reports', {
    body: { year: 2025 },
    headers: { prefer: 'respond-async' },
  })
  assert.equal(status, 202)
  return headers.get('location') ?? ''
}

async function running(path: string): Promise<void> {
  await eventually(async () => (await client.ask('GET', path)).json.progress !== undefined, 15_000, 'the task runs')
}

test('a worker on SIGTERM finishes runs within its limit, and starts no new run', async () => {
  const path = await begin()
  const worker = await startWorker({ DRAIN_MS: '15000' })
  await running(path)
  worker.child.kill('SIGTERM')
  const [exit, final] = await Promise.all([worker.exited, client.ended(path)])
  assert.deepEqual(exit, { code: 0, signal: null }, worker.err)
  assert.deepEqual(final.json.result, { message: 'The report of 2025 is ready.', months: 12 })
  assert.equal(worker.err, '')
})

test('a busy worker gives back its runs when its drain time is over, and another worker completes them', async () => {
  const paths = await Promise.all([begin(), begin()])
  const worker = await startWorker({ DRAIN_MS: '200' })
  for (const path of paths) await running(path)
  worker.child.kill('SIGTERM')
  assert.deepEqual(await worker.exited, { code: 0, signal: null }, worker.err)
  for (const path of paths) assert.equal((await client.ask('GET', path)).json.status, 'processing')
  const next = await startWorker()
  for (const path of paths) assert.equal((await client.ended(path)).json.status, 'completed')
  next.child.kill('SIGTERM')
  web.child.kill('SIGTERM')
  assert.deepEqual(
    [await next.exited, await web.exited],
    [
      { code: 0, signal: null },
      { code: 0, signal: null },
    ],
    next.err + web.err,
  )
})
