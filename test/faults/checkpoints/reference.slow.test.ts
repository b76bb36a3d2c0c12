// An import of the reference server whose process is killed, by real processes.
import assert from 'node:assert/strict'
import { describe, test } from 'node:test'
import { startProcess, stopAfterwards, type ServerProcess } from '../../http/kit/process.js'
import { Client } from '../../http/kit/reference.js'
import { postgresUrl } from '../../servers/postgres-url.js'
import { redisForFile } from '../../servers/redis-server.js'
import { databaseOf, startWeb, startWorker } from '../kit/reference-cluster.js'

stopAfterwards()
/** The same 50 users again and again, and a bad line in each thousand. */
function bodyOf(count: number): string {
  const lines = Array.from({ length: count }, (_, at) => (
    at % 1000 === 7 ? 'not JSON' : JSON.stringify({ id: at % 50 + 1, name: `Name ${at} ${'x'.repeat(60)}` })
  ))
  return `${lines.join('\n')}\n`
}

/** Progress may be ahead of the last committed batch by this many bytes: what was read and not written. */
const AHEAD = 524_288
const databases = [
  { name: 'Redis', url: (await redisForFile()).url, count: 120_000 },
  { name: 'PostgreSQL', url: await postgresUrl(), count: 24_000 },
]

interface Status {
  readonly status: string
  readonly attempt?: number
  readonly progress?: { readonly done: number }
  readonly result?: { readonly summary: object, readonly items: readonly { readonly line: number }[] }
}

interface Site {
  readonly client: Client
  /** Kills the process that runs the import, and starts another one. */
  readonly killAndRestart: () => Promise<void>
  /** Ends all processes, because a worker would take the import of the next test. */
  readonly end: () => Promise<void>
}

/** Web and worker are two processes. The worker is killed. */
async function webAndWorker(url: string): Promise<Site> {
  const web = await startWeb(url)
  let worker = await startWorker(url)
  return {
    client: web.client,
    async killAndRestart() {
      await kill(worker)
      worker = await startWorker(url)
    },
    end: () => kill(worker, web.process),
  }
}

/** One process does all. */
async function oneProcess(url: string): Promise<Site> {
  const env = { ...databaseOf(url), AUTH_TOKENS: 'writer-1=will:writer', RATE_LIMIT: '1000000' }
  let server = startProcess(env)
  const client = new Client(await server.url())
  return {
    client,
    async killAndRestart() {
      await kill(server)
      server = startProcess(env)
      client.url = await server.url()
    },
    end: () => kill(server),
  }
}

async function kill(...processes: readonly ServerProcess[]): Promise<void> {
  for (const { child, exited } of processes) {
    child.kill('SIGKILL')
    await exited
  }
}

/** Imports lines, more of them if the import was completed before its process was killed. */
async function importWithKill(site: Site, count: number): Promise<void> {
  const { client, killAndRestart } = site
  const body = bodyOf(count)
  const bad = count / 1000
  const headers = { 'content-type': 'application/x-ndjson', prefer: 'respond-async' }
  const accepted = await client.ask('POST', '/upload-ndjson', { body, headers })
  assert.equal(accepted.status, 202)
  const path = accepted.headers.get('location') ?? ''
  let now: Status = accepted.json
  let etag = ''
  // A long poll, because a loop of short ones would take the CPU of the import.
  const read = async (): Promise<void> => {
    const answer = await client.ask('GET', path, { headers: { 'prefer': 'wait=5', 'if-none-match': etag } })
    if (answer.status === 304) return
    etag = answer.headers.get('etag') ?? ''
    now = answer.json
  }
  while ((now.progress?.done ?? 0) < 2 * AHEAD && now.status !== 'completed') await read()
  const reached = now.progress?.done ?? 0
  await killAndRestart()
  await read()
  // The record shows the progress of the first run until the second one reports its own.
  let lowest = Infinity
  for (; now.status === 'processing'; await read()) lowest = Math.min(lowest, now.progress?.done ?? Infinity)
  assert.equal(now.status, 'completed')
  // The server may store the end of the first run after its process was killed.
  if (now.attempt === 1) return importWithKill(site, 2 * count)
  // On a busy machine the second run may lose its lease, too.
  assert.ok((now.attempt ?? 0) >= 2, 'it was killed midway')
  assert.ok(
    lowest >= reached - AHEAD,
    `the second run began before byte ${lowest}, and the first one had read ${reached}`,
  )
  assert.deepEqual(now.result?.summary, { total: count, succeeded: count - bad, failed: bad })
  assert.deepEqual(
    now.result.items.map(({ line }) => line),
    Array.from({ length: Math.min(bad, 100) }, (_, at) => at * 1000 + 8),
  )
}

// At the same time, because each of them waits for leases.
describe('an import of the reference server', { concurrency: true }, () => {
  for (const { name, url, count } of databases) {
    describe(`on ${name} continues at the last committed line with the same report`, () => {
      for (const [what, start] of Object.entries({
        'its worker': webAndWorker,
        'the one process of the server': oneProcess,
      })) {
        test(`when ${what} is killed`, async (t) => {
          const site = await start(url)
          t.after(site.end)
          await importWithKill(site, count)
        })
      }
    })
  }
})
