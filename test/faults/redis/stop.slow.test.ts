// SIGTERM while Redis can't be reached: the drain time is a promise, whatever Redis does.
import assert from 'node:assert/strict'
import { after, describe, test } from 'node:test'
import { Client } from '../../http/kit/reference.js'
import { ServerProcess, startProcess, stopAfterwards } from '../../http/kit/process.js'
import { RedisServer } from '../../servers/redis-server.js'
import { program } from '../../servers/program.js'
import { eventually } from '../../kit/wait.js'

stopAfterwards()

const DRAIN_MS = 1000
/** What a process may take beyond its drain time; most of it is for the connections to end, and for this machine. */
const BEYOND_MS = 30_000
const TOKENS = 'writer-1=will:writer'

const FAULTS = {
  'refuses connections': (redis: RedisServer) => redis.kill(),
  'has stopped answering': (redis: RedisServer) => { redis.freeze() },
}

function exampleProcess(file: 'main' | 'web', url: string): ServerProcess {
  const env = { REDIS_URL: url, PORT: '0', DRAIN_MS: String(DRAIN_MS) }
  return new ServerProcess(process.execPath, program(`examples/worker/${file}.ts`), env)
}

function referenceProcess(worker: 'on' | 'only', url: string): ServerProcess {
  // A database of its own: its namespace is that of the examples.
  return startProcess({ REDIS_URL: `${url}/1`, WORKER: worker, AUTH_TOKENS: TOKENS, DRAIN_MS: String(DRAIN_MS) })
}

/** Sends SIGTERM to all and waits until they end; each has to, by itself and in time. */
async function endInTime(processes: Readonly<Record<string, ServerProcess>>): Promise<void> {
  const began = performance.now()
  for (const { child } of Object.values(processes)) child.kill('SIGTERM')
  await Promise.all(Object.entries(processes).map(async ([name, each]) => {
    const kill = setTimeout(() => { each.child.kill('SIGKILL') }, DRAIN_MS + BEYOND_MS)
    const exit = await each.exited
    clearTimeout(kill)
    const took = `${name} after ${String(Math.round(performance.now() - began))} ms: ${each.err}`
    assert.deepEqual(exit, { code: 0, signal: null }, took)
    assert.doesNotMatch(each.err, /unhandled/i, took)
  }))
}

for (const [fault, strike] of Object.entries(FAULTS)) {
  describe(`on SIGTERM, while Redis ${fault}`, () => {
    test('idle processes end within their drain time', async () => {
      const redis = await RedisServer.start()
      after(() => redis.stop())
      const web = exampleProcess('web', redis.url)
      const worker = exampleProcess('main', redis.url)
      const server = referenceProcess('on', redis.url)
      const serverWorker = referenceProcess('only', redis.url)
      await Promise.all([
        web.url(),
        server.url(),
        worker.said(/The worker is ready/),
        serverWorker.said(/The worker is ready/),
      ])
      await strike(redis)
      await endInTime({ web, worker, server, 'worker of the reference server': serverWorker })
    })

    test('processes whose work continues end within their drain time', async () => {
      const redis = await RedisServer.start()
      after(() => redis.stop())
      const web = exampleProcess('web', redis.url)
      const worker = exampleProcess('main', redis.url)
      const server = referenceProcess('on', redis.url)
      const [webUrl, serverUrl] = await Promise.all([web.url(), server.url(), worker.said(/The worker is ready/)])
      const reports = new Client(webUrl)
      const tasks = new Client(serverUrl)
      const report = await reports.ask('POST', '/reports', {
        body: { year: 2025 },
        headers: { prefer: 'respond-async' },
      })
      const task = await tasks.submit('wait', { ms: 60_000 })
      assert.deepEqual([report.status, task.status], [202, 202])
      await eventually(async () => (
        (await reports.ask('GET', report.headers.get('location') ?? '')).json.progress !== undefined
        && (await tasks.ask('GET', task.headers.get('location') ?? '')).json.startedAt !== undefined
      ), 20_000, 'both tasks run')
      await strike(redis)
      await endInTime({ web, worker, server })
    })
  })
}
