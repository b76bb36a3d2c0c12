// SIGTERM while PostgreSQL cannot be reached: the drain time is kept, whatever PostgreSQL does.
import assert from 'node:assert/strict'
import { describe, test, type TestContext } from 'node:test'
import { Client } from '../../http/kit/reference.js'
import { type ServerProcess, startProcess, stopAfterwards } from '../../http/kit/process.js'
import { startPostgres, type PostgresServer } from '../../servers/postgres-server.js'
import { eventually } from '../../kit/wait.js'

stopAfterwards()

const DRAIN_MS = 1000
/** Time that a process may take beyond its drain time, in milliseconds: for its connections, and for this machine. */
const BEYOND_MS = 30_000

const FAULTS = {
  'refuses connections': (server: PostgresServer) => server.kill(),
  'has stopped answering': (server: PostgresServer) => { server.freeze() },
}

async function serverOf(t: TestContext): Promise<PostgresServer> {
  const server = await startPostgres()
  t.after(() => server.stop())
  return server
}

function start(worker: 'on' | 'off', { url }: PostgresServer): ServerProcess {
  return startProcess({
    DATABASE: url,
    WORKER: worker,
    AUTH_TOKENS: 'writer-1=will:writer',
    DRAIN_MS: String(DRAIN_MS),
  })
}

/** Sends SIGTERM to all. Each must end by itself and in time. */
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
  describe(`on SIGTERM, while PostgreSQL ${fault}`, () => {
    test('idle processes of the reference server end within their drain time', async (t) => {
      const server = await serverOf(t)
      const web = start('off', server)
      const both = start('on', server)
      await Promise.all([web.url(), both.url()])
      await strike(server)
      await endInTime({ web, both })
    })

    test('a process with a running task ends within its drain time', async (t) => {
      const server = await serverOf(t)
      const both = start('on', server)
      const client = new Client(await both.url())
      const task = await client.submit('wait', { ms: 60_000 })
      assert.equal(task.status, 202)
      const path = task.headers.get('location') ?? ''
      await eventually(
        async () => (await client.ask('GET', path)).json.startedAt !== undefined,
        20_000,
        'the task runs',
      )
      await strike(server)
      await endInTime({ both })
    })
  })
}
