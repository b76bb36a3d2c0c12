// Change notices of the store on PostgreSQL while their connection is lost, silent or refused.
import assert from 'node:assert/strict'
import { Socket } from 'node:net'
import { describe, test, type TestContext } from 'node:test'
import { postgres } from 'longhaul/postgres'
import type { Store } from 'longhaul/stores'
import pg from 'pg'
import { pgBouncerForFile } from '../../servers/pgbouncer.js'
import { postgresForFile } from '../../servers/postgres-server.js'
import { TcpProxy } from '../../servers/tcp-proxy.js'
import { eventually } from '../../kit/wait.js'

const server = await postgresForFile()
const pooler = await pgBouncerForFile(server)
const later = { ttlMs: 60_000 }
/** Maximum time until a change is noticed, whatever has happened. */
const NOTICED_MS = 15_000
const LISTENING = "FROM pg_stat_activity WHERE query LIKE 'LISTEN%'"

function storeAt(t: TestContext, url: string, max = 5): Store {
  const pool = new pg.Pool({ connectionString: url, max })
  pool.on('error', () => undefined)
  const { store } = postgres({ pool })
  t.after(async () => {
    await store.close()
    await pool.end()
  })
  return store
}

/** Watches a key, and returns a function that waits until a change by another store is noticed. */
async function watched(store: Store, writer: Store, key: string): Promise<(what: string) => Promise<void>> {
  let notices = 0
  await store.watch(key, () => { notices++ })
  const created = await writer.create(key, '', later)
  assert.ok(created.created)
  let { revision } = created
  return async (what) => {
    const before = notices
    const replaced = await writer.replace(key, what, revision, later)
    assert.ok(replaced.replaced)
    revision = replaced.revision
    await eventually(() => notices > before, NOTICED_MS, `a change is noticed ${what}`)
  }
}

/** Returns the process ids of the connections that listen. */
async function listeners(): Promise<readonly number[]> {
  return (await server.query(`SELECT pid ${LISTENING}`)).map(({ pid }) => Number(pid))
}

describe('change notices on PostgreSQL', () => {
  test('resume after the server has closed their connection, and watchers are notified at once', async (t) => {
    const [store, writer] = [storeAt(t, server.url), storeAt(t, server.url)]
    const noticed = await watched(store, writer, 'closed')
    await noticed('at first')
    let told = 0
    await store.watch('other', () => { told++ })
    await server.query(`SELECT pg_terminate_backend(pid) ${LISTENING}`)
    await eventually(() => told > 0, NOTICED_MS, 'watchers are told, because notices may have been lost')
    await eventually(async () => (await listeners()).length === 1, NOTICED_MS, 'there is a connection again')
    await noticed('after the loss')
  })

  test('resume after their connection was half-open', async (t) => {
    const proxy = await TcpProxy.to(server.port)
    t.after(() => { proxy.close() })
    const [store, writer] = [storeAt(t, server.urlAt(proxy.port)), storeAt(t, server.url)]
    const noticed = await watched(store, writer, 'half-open')
    await noticed('at first')
    proxy.forget()
    await noticed('after the loss')
    await noticed('after that')
  })

  test('resume after a restart of the server', async (t) => {
    const [store, writer] = [storeAt(t, server.url), storeAt(t, server.url)]
    const noticed = await watched(store, writer, 'restarted')
    await noticed('at first')
    await server.shutDown()
    await server.run()
    await noticed('after the restart')
  })

  test('are replaced by polling behind a pooler in transaction mode', async (t) => {
    const [store, writer] = [storeAt(t, pooler.url), storeAt(t, server.url)]
    const noticed = await watched(store, writer, 'pooled')
    await noticed('by polling')
    await noticed('again')
  })

  test('are replaced by polling if no connection is left for them', async (t) => {
    const writer = storeAt(t, server.url)
    await writer.get('key')
    await server.query(`CREATE ROLE limited LOGIN CONNECTION LIMIT 2; GRANT USAGE ON SCHEMA longhaul TO limited;
      GRANT SELECT, INSERT, UPDATE, DELETE ON ALL TABLES IN SCHEMA longhaul TO limited`)
    const url = new URL(server.url)
    url.username = 'limited'
    const pool = new pg.Pool({ connectionString: url.href, max: 2, min: 2 })
    const { store } = postgres({ pool })
    t.after(async () => {
      await store.close()
      await pool.end()
    })
    await Promise.all([store.get('a'), store.get('b')])
    const noticed = await watched(store, writer, 'limited')
    await noticed('by polling')
    const limited = await server.query("SELECT 1 FROM pg_stat_activity WHERE usename = 'limited'")
    assert.equal(limited.length, 2)
  })

  test('time out while the server is away, and watchers then read for themselves', async (t) => {
    const store = storeAt(t, 'postgres://longhaul@127.0.0.1:1/postgres')
    let notices = 0
    await store.watch('key', () => { notices++ })
    await eventually(() => notices > 0, NOTICED_MS, 'watchers are notified at intervals')
  })

  test('end with the store, which closes their connection', async (t) => {
    // The connections of the pooler may be open still.
    const others = await listeners()
    const store = storeAt(t, server.url)
    await store.watch('key', () => undefined)
    const isOpen = async (pid: number) => (await listeners()).includes(pid)
    const [own] = (await listeners()).filter((pid) => !others.includes(pid))
    assert.ok(own !== undefined)
    await store.close()
    await eventually(async () => !await isOpen(own), NOTICED_MS, 'the connection is closed')
  })

  test('end soon with the store while no notice arrives', async (t) => {
    const proxy = await TcpProxy.to(server.port)
    const sockets: Socket[] = []
    const pool = new pg.Pool({
      connectionString: server.urlAt(proxy.port),
      stream: () => {
        const socket = new Socket()
        sockets.push(socket)
        return socket
      },
    })
    t.after(async () => {
      proxy.close()
      await pool.end()
    })
    const { store } = postgres({ pool })
    await store.watch('key', () => undefined)
    assert.equal(sockets.length, 2)
    proxy.swallow()
    const closing = store.close()
    await eventually(() => sockets.some(({ destroyed }) => destroyed), NOTICED_MS, 'the connection is closed')
    await closing
  })

  test('share one connection for the store and its tasks, until both are closed', async (t) => {
    const others = await listeners()
    const pool = new pg.Pool({ connectionString: server.url })
    const { engine, store } = postgres({ pool })
    t.after(() => pool.end())
    let notices = 0
    await store.watch('shared', () => { notices++ })
    await engine.watch('shared', () => { notices += 100 })
    const [own, ...more] = (await listeners()).filter((pid) => !others.includes(pid))
    assert.ok(own !== undefined && more.length === 0)
    await engine.close({ drainMs: 0 })
    await storeAt(t, server.url).create('shared', '', later)
    await eventually(() => notices > 0, NOTICED_MS, 'the store is told')
    assert.equal(notices, 1)
    await store.close()
    await eventually(async () => !(await listeners()).includes(own), NOTICED_MS, 'the connection is closed')
  })

  test('take few statements for many keys', async (t) => {
    const [store, writer] = [storeAt(t, server.url), storeAt(t, server.url)]
    const keys = Array.from({ length: 1000 }, (_, n) => `many-${String(n)}`)
    const told = new Set<string>()
    for (const key of keys) await store.watch(key, () => { told.add(key) })
    const commits = async () => Number((await server.query(
      "SELECT xact_commit FROM pg_stat_database WHERE datname = 'postgres'"))[0]?.['xact_commit'])
    const before = await commits()
    // A hundred at a time: a busy machine does not write all of them within the limit of one call.
    for (let at = 0; at < keys.length; at += 100) {
      await Promise.all(keys.slice(at, at + 100).map(async (key) => writer.create(key, '', later)))
    }
    await eventually(() => told.size === keys.length, NOTICED_MS, 'all are told')
    // The statistics are published at the end of a connection's transaction, and never exceed the truth.
    assert.ok(await commits() - before < 1.5 * keys.length)
  })

  test('include the last write before the store closed', async (t) => {
    const [store, pool] = [storeAt(t, server.url), new pg.Pool({ connectionString: server.url })]
    const told = new Set<string>()
    const writer = postgres({ pool }).store
    for (const key of ['last 1', 'last 2']) await store.watch(key, () => { told.add(key) })
    await writer.create('last 1', '', later)
    await writer.create('last 2', '', later)
    await writer.close()
    await pool.end()
    await eventually(() => told.size === 2, 2000, 'both are told, before anybody polls')
  })
})
