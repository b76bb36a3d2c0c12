// The reference server and a PostgreSQL that is not there yet, does not answer, or rejects the address.
import assert from 'node:assert/strict'
import { chmodSync, mkdtempSync, rmSync, writeFileSync } from 'node:fs'
import { createServer } from 'node:net'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { after, describe, test } from 'node:test'
import { POSTGRES_USER } from '../../servers/postgres-data.js'
import { startPostgres } from '../../servers/postgres-server.js'
import { type ServerProcess, startProcess, stopAfterwards } from '../kit/process.js'
import { Client } from '../kit/reference.js'
import { eventually } from '../../kit/wait.js'
import { listen } from '../../kit/listen.js'

stopAfterwards()

const WRITER = { token: 'demo-writer' }

async function ends(server: ServerProcess): Promise<void> {
  server.child.kill('SIGTERM')
  assert.deepEqual(await server.exited, { code: 0, signal: null })
}

async function assertUnavailable(client: Client): Promise<void> {
  const users = await client.ask('GET', '/users', WRITER)
  const submitted = await client.submit('wait', { ms: 0 }, WRITER)
  for (const { status, headers, json } of [users, submitted]) {
    assert.equal(status, 503, JSON.stringify(json))
    assert.match(headers.get('retry-after') ?? '', /^[1-9][0-9]*$/)
  }
}

describe('a PostgreSQL that is down at the start', { timeout: 120_000 }, () => {
  test('lets the server listen, respond with 503, and work once PostgreSQL is there', async (t) => {
    const postgres = await startPostgres()
    t.after(() => postgres.stop())
    await postgres.shutDown()
    const web = startProcess({ DATABASE: postgres.url, WORKER: 'off' })
    const worker = startProcess({ DATABASE: postgres.url, WORKER: 'only' })
    const client = new Client(await web.url())
    await assertUnavailable(client)
    await eventually(() => worker.out.includes('The worker is ready'), 20_000, 'the worker waits')

    await postgres.run()
    await eventually(async () => (await client.ask('GET', '/users', WRITER)).status === 200, 20_000, 'users are there')
    let path = ''
    await eventually(async () => {
      const { status, headers } = await client.submit('wait', { ms: 0 }, WRITER)
      path = headers.get('location') ?? ''
      return status === 202
    }, 20_000, 'tasks are accepted')
    assert.equal((await client.ended(path, WRITER)).json.status, 'completed')
    assert.match(web.err, /^PostgreSQL cannot be reached: connect ECONNREFUSED \S+\. Requests get 503 until it can\.$/m)
    assert.match(worker.err, /^PostgreSQL cannot be reached: connect ECONNREFUSED /m)
    await Promise.all([ends(web), ends(worker)])
  })

  test('lets the server listen and respond with 503 even if PostgreSQL accepts connections and never responds', async (t) => {
    const silent = createServer((socket) => {
      socket.on('error', () => undefined)
    })
    const { port } = await listen(silent)
    t.after(() => silent.close())
    const server = startProcess({ DATABASE: `postgres://ann@127.0.0.1:${port}/shop` })
    const client = new Client(await server.url())
    await assertUnavailable(client)
    assert.match(server.err, /^PostgreSQL cannot be reached: no answer within 3000 ms\./m)
    await ends(server)
  })
})

describe(
  'a PostgreSQL that rejects the address ends the start with one sentence',
  { timeout: 60_000, concurrency: true },
  async () => {
    const folder = mkdtempSync(join(tmpdir(), 'longhaul-hba-'))
    const rules = join(folder, 'pg_hba.conf')
    writeFileSync(rules, `host all ${POSTGRES_USER} 127.0.0.1/32 trust\nhost all all 127.0.0.1/32 scram-sha-256\n`)
    chmodSync(folder, 0o755)
    const postgres = await startPostgres({ settings: { hba_file: rules } })
    await postgres.query("CREATE ROLE shop LOGIN PASSWORD 'right'")
    after(async () => {
      await postgres.stop()
      rmSync(folder, { recursive: true })
    })
    const at = (user: string, name: string): string => `postgres://${user}@127.0.0.1:${postgres.port}/${name}`
    const wrong = [
      [at('shop:wrong', 'postgres'), 'off', 'password authentication failed for user "shop"'],
      [at('shop', 'postgres'), 'on', 'SASL: SCRAM-SERVER-FIRST-MESSAGE: client password must be a string'],
      [at('shop:right', 'missing'), 'only', 'database "missing" does not exist'],
      [at('shop:right', 'postgres'), 'on', 'permission denied for schema public'],
    ] as const
    for (const [database, worker, reason] of wrong) {
      test(`WORKER=${worker}: ${reason}`, async () => {
        const server = startProcess({ DATABASE: database, WORKER: worker })
        assert.deepEqual(await server.exited, { code: 1, signal: null })
        assert.equal(server.err, `DATABASE: PostgreSQL does not accept this address: ${reason}.\n`)
        assert.equal(server.out, '')
      })
    }
  },
)
