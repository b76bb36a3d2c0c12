import assert from 'node:assert/strict'
import { once } from 'node:events'
import { test, type TestContext } from 'node:test'
import { createTasks, defineTask, type AnyTaskDefinition } from 'longhaul'
import { isStoreUnavailable } from 'longhaul/stores'
import { sqlite } from 'longhaul/sqlite'
import { eventually } from '../../kit/wait.js'
import { openSqlite, sqliteUrl, type OpenSqlite } from '../../servers/sqlite.js'

const work = defineTask({ name: 'work', run: (input: { readonly text: string }) => input.text.length })

/** Tasks on a new file, and the database that they use. */
async function open(
  t: TestContext, timeoutMs = 3000, options: { readonly concurrency?: number } = {}, note?: (sql: string) => void,
) {
  const path = (await sqliteUrl()).slice('sqlite:'.length)
  const database = note === undefined ? openSqlite(path) : noting(openSqlite(path), note)
  const parts = sqlite({ database, timeoutMs })
  const outages: unknown[] = []
  const tasks = createTasks({
    ...parts, definitions: [work], onError: (error) => { outages.push(error) }, ...options,
  })
  t.after(async () => {
    await tasks.close({ drainMs: 0 })
    await parts.store.close()
    await parts.blobs.close()
    database.close()
  })
  const submit = (text = 'hello') => tasks.submit(work, { text })
  return { path, database, tasks, parts, submit, outages }
}

/** Another connection, which has the lock of the file. */
function lock(path: string): OpenSqlite {
  const other = openSqlite(path)
  other.exec('BEGIN IMMEDIATE')
  return other
}

test('calls wait for the lock of another process, and this process responds meanwhile', async (t) => {
  const { path, submit, tasks } = await open(t)
  await submit()
  const other = lock(path)
  const waiting = submit()
  let turns = 0
  await eventually(() => ++turns > 3, 10_000, 'the event loop turns')
  assert.ok(tasks)
  other.exec('COMMIT')
  other.close()
  const task = await waiting
  assert.equal((await task.wait({ timeoutMs: 30_000 }))?.status, 'completed')
})

test('a call fails as an outage while another process keeps the lock, and health reports it', async (t) => {
  const { path, submit, tasks } = await open(t, 50)
  await submit()
  const other = lock(path)
  await assert.rejects(submit(), (error) => isStoreUnavailable(error) && /locked the database/.test(error.message))
  assert.equal((await tasks.health()).ok, false)
  other.exec('COMMIT')
  other.close()
  await submit()
  assert.equal((await tasks.health()).ok, true)
})

test('a read after a call that got no lock sees later writes of the process with the lock', async (t) => {
  const {
    path,
    submit,
    parts: { engine },
  } = await open(t, 50)
  await submit()
  const other = lock(path)
  await assert.rejects(submit(), isStoreUnavailable)
  assert.deepEqual(await engine.pausedPools(), [])
  other.exec("INSERT INTO longhaul_pauses (pool) VALUES ('slow'); COMMIT")
  other.close()
  assert.deepEqual(await engine.pausedPools(), ['slow'])
})

test('an open transaction of the application on the same database delays a call', async (t) => {
  const { database, submit } = await open(t)
  database.exec('CREATE TABLE invoices (id INTEGER); BEGIN; INSERT INTO invoices VALUES (1)')
  const waiting = submit()
  await new Promise((resolve) => { setImmediate(resolve) })
  database.exec('ROLLBACK')
  assert.ok(await waiting)
  assert.equal(database.prepare('SELECT * FROM invoices').all().length, 0)
})

test('a full file rejects a task as full and stores no part of it, and accepts tasks when there is space', async (t) => {
  const { database, submit, tasks, parts } = await open(t)
  const first = await submit()
  await first.wait({ timeoutMs: 30_000 })
  const [pages] = database.prepare('PRAGMA page_count').all() as { readonly page_count: number }[]
  database.exec(`PRAGMA max_page_count = ${String(pages?.page_count)}`)
  const large = submit('x'.repeat(100_000))
  await assert.rejects(large, (error) => isStoreUnavailable(error) && error.reason === 'full')
  assert.equal((await parts.engine.list({ of: 'all', order: 'oldest', limit: 10 })).length, 1)
  for (let isFull = false; !isFull;) isFull = await submit('x'.repeat(1000)).then(() => false, () => true)
  assert.equal((await tasks.health()).ok, false)
  database.exec('PRAGMA max_page_count = 1000000')
  const task = await submit('x'.repeat(100_000))
  assert.equal((await task.wait({ timeoutMs: 30_000 }))?.status, 'completed')
})

test('a read-only database rejects new tasks, shows the existing ones, and is not healthy', async (t) => {
  const { database, submit, tasks } = await open(t)
  const { taskId: id } = await submit()
  await tasks.get(id)
  database.exec('PRAGMA query_only = 1')
  await assert.rejects(submit(), isStoreUnavailable)
  assert.equal((await tasks.health()).ok, false)
  assert.equal((await tasks.get(id))?.taskId, id)
  database.exec('PRAGMA query_only = 0')
  await submit()
})

test('an error names both versions if a file has a later version', async (t) => {
  const { path, submit, database } = await open(t)
  await submit()
  database.exec('UPDATE longhaul_schema SET version = 99')
  const other = openSqlite(path)
  t.after(() => { other.close() })
  const { engine } = sqlite({ database: other })
  await assert.rejects(async () => engine.now(), /version 99 .* knows up to 1; update longhaul/)
})

test('a call that SQLite rejects fails alone, and other calls of the same transaction succeed', async (t) => {
  const { database, parts: { store }, submit } = await open(t)
  await submit()
  database.exec(`CREATE TRIGGER refuse BEFORE INSERT ON longhaul_entries WHEN new.key = 'bad'
    BEGIN SELECT raise(ABORT, 'refused'); END`)
  const outcomes = await Promise.allSettled(['a', 'bad', 'b'].map((key) => store.create(key, '1', { ttlMs: 60_000 })))
  assert.deepEqual(outcomes.map(({ status }) => status), ['fulfilled', 'rejected', 'fulfilled'])
  assert.equal((await store.get('b'))?.value, '1')
})

test('another process sees a change of a task, and a cancel in a third process ends its run', async (t) => {
  const { path } = await open(t)
  const stays = defineTask({
    name: 'stays',
    run: (_input: object, { signal }) => new Promise((resolve) => { signal.addEventListener('abort', resolve) }),
  })
  const processes = ['worker', 'web', 'other'].map((name) => {
    const database = openSqlite(path)
    const parts = sqlite({ database })
    const tasks = createTasks({ ...parts, definitions: [stays], worker: name === 'worker' })
    t.after(async () => {
      await tasks.close({ drainMs: 0 })
      await parts.store.close()
      await parts.blobs.close()
      database.close()
    })
    return tasks
  })
  const [worker, web, other] = processes as [typeof processes[0], typeof processes[0], typeof processes[0]]
  const task = await web.submit(stays, {})
  await eventually(async () => (await web.get(task.taskId))?.status === 'processing', 30_000, 'the worker begins')
  const end = web.get(task.taskId).then(() => task.wait({ timeoutMs: 30_000 }))
  await other.cancel(task.taskId)
  assert.equal((await end)?.status, 'cancelled')
  await eventually(async () => (await worker.health()).running === 0, 30_000, 'the run ends')
})

test('runs begin again after SQLite has failed to begin them, and the process makes no endless retries', async (t) => {
  let begins = 0
  const { database, submit, outages } = await open(t, 3000, { concurrency: 1 }, (sql) => {
    if (sql === 'BEGIN IMMEDIATE') begins++
  })
  await (await submit()).wait({ timeoutMs: 30_000 })
  database.exec(`CREATE TRIGGER refuse BEFORE UPDATE ON longhaul_tasks WHEN new.status = 1
    BEGIN SELECT raise(ABORT, 'refused'); END`)
  // The first one is inserted as running. The second one waits for its place.
  const [, task] = await Promise.all([submit(), submit()])
  await eventually(() => outages.length > 0, 30_000, 'the worker reports the outage')
  assert.ok(begins > 0)
  begins = 0
  for (let turn = 0; turn < 50; turn++) await new Promise((resolve) => { setImmediate(resolve) })
  assert.ok(begins < 10, `${String(begins)} transactions in 50 turns`)
  database.exec('DROP TRIGGER refuse')
  assert.equal((await task.wait({ timeoutMs: 30_000 }))?.status, 'completed')
})

test('a call waits for a transaction of the application that began before the first call', async (t) => {
  const { path, submit } = await open(t)
  await submit()
  const database = openSqlite(path)
  const { store } = sqlite({ database })
  t.after(() => { database.close() })
  database.exec('BEGIN')
  const waiting = store.create('key', '1', { ttlMs: 60_000 })
  await new Promise((resolve) => { setImmediate(resolve) })
  database.exec('COMMIT')
  assert.equal((await waiting).created, true)
})

test('calls that wait for a lock are retried together, every few milliseconds', async (t) => {
  let begins = 0
  const { path, parts: { store }, submit } = await open(t, 3000, {}, (sql) => {
    if (sql === 'BEGIN IMMEDIATE') begins++
  })
  await submit()
  const other = lock(path)
  begins = 0
  const calls: Promise<unknown>[] = []
  for (let n = 0; n < 200; n++) {
    calls.push(store.create(`key-${String(n)}`, '1', { ttlMs: 60_000 }))
    await new Promise((resolve) => { setImmediate(resolve) })
  }
  const attempts = begins
  other.exec('COMMIT')
  other.close()
  await Promise.all(calls)
  assert.ok(attempts > 0 && attempts < 150, `${String(attempts)} attempts for 200 calls`)
})

test('a watch notices the change of another process although a second watch begins after it', async (t) => {
  const { path, parts: { store } } = await open(t)
  const database = openSqlite(path)
  const other = sqlite({ database })
  t.after(async () => {
    await other.store.close()
    await other.blobs.close()
    database.close()
  })
  await store.create('key', '1', { ttlMs: 60_000 })
  const changed = new Promise<void>((resolve) => { void store.watch('key', resolve) })
  await store.get('key')
  await other.store.delete('key')
  await store.watch('key', () => undefined)
  await changed
})

test("two longhaul instances on one connection notice each other's changes", async (t) => {
  const { database, parts: { store } } = await open(t)
  const other = sqlite({ database })
  t.after(async () => {
    await other.store.close()
    await other.blobs.close()
  })
  await store.create('key', '1', { ttlMs: 60_000 })
  const changed = new Promise<void>((resolve) => { void store.watch('key', resolve) })
  await store.get('key')
  await other.store.delete('key')
  await changed
})

test('expired entries are removed as fast as others are created', async (t) => {
  const { database, parts: { store } } = await open(t)
  const ends = Array.from({ length: 1000 }, (_, n) => store.create(`old-${String(n)}`, '1', { ttlMs: 0 }))
  await Promise.all(ends)
  for (let n = 0; n < 6; n++) await store.create(`new-${String(n)}`, '1', { ttlMs: 60_000 })
  const [row] = database.prepare('SELECT count(*) AS count FROM longhaul_entries').all() as { count: number }[]
  assert.equal(row?.count, 6)
})

/** Passes calls to a database, and calls `note` for each call of a statement. */
function noting(database: OpenSqlite, note: (sql: string) => void): OpenSqlite {
  const prepare = (sql: string): ReturnType<OpenSqlite['prepare']> => {
    const statement = database.prepare(sql)
    const noted = <T>(work: () => T): T => {
      note(sql)
      return work()
    }
    return {
      all: (...values) => noted(() => statement.all(...values)),
      run: (...values) => noted(() => statement.run(...values)),
    }
  }
  return { prepare, exec: (sql) => (note(sql), database.exec(sql)), close: () => { database.close() } }
}

test('a write of another process makes this process read only 500 of its watched keys in one turn', async (t) => {
  const { path, parts: { store: other } } = await open(t)
  let reads = 0
  const database = noting(openSqlite(path), (sql) => { if (sql.startsWith('SELECT revision')) reads++ })
  const { store, blobs } = sqlite({ database })
  t.after(async () => {
    await store.close()
    await blobs.close()
    database.close()
  })
  await store.get('first')
  const changed = new Promise<void>((resolve) => {
    for (let n = 0; n < 1200; n++) void store.watch(`key-${String(n)}`, n === 1199 ? resolve : () => undefined)
  })
  await new Promise((resolve) => { setImmediate(resolve) })
  await other.create('key-1199', '1', { ttlMs: 60_000 })
  let [most, isOver] = [0, false]
  void changed.then(() => { isOver = true })
  while (!isOver) {
    reads = 0
    await new Promise((resolve) => { setImmediate(resolve) })
    most = Math.max(most, reads)
  }
  assert.equal(most, 500)
})

test('each statement finds its rows by an index', async (t) => {
  const { path } = await open(t)
  const statements = new Set<string>()
  const database = noting(openSqlite(path), (sql) => { statements.add(sql) })
  const { engine, store, blobs } = sqlite({ database, maxEntriesPerOwner: 1 })
  const shared = {
    pool: 'shared',
    run: (_input: object, run: { readonly signal: AbortSignal }) => once(run.signal, 'abort'),
  }
  const [limited, free] = [{ maxRunningPerOwner: 1 }, {}].map((limits) => (
    defineTask({ ...shared, name: 'shared', ...limits })
  )) as [AnyTaskDefinition, AnyTaskDefinition]
  const pools = { shared: { maxRunning: 9, startsPer: { count: 9, ms: 1000 } } }
  const tasks = createTasks({ engine, store, blobs, definitions: [work, limited], pools })
  const other = sqlite({ database })
  t.after(async () => {
    await tasks.close({ drainMs: 0 })
    for (const parts of [{ store, blobs }, other]) {
      await parts.store.close()
      await parts.blobs.close()
    }
    database.close()
  })
  for (const text of ['one', 'two']) {
    const task = await tasks.submit(work, { text }, { owner: 'ann', delayMs: 1 })
    await task.wait({ timeoutMs: 30_000 })
    await store.create(text, '1', { ttlMs: 0, caller: 'ann', evictable: true })
  }
  await tasks.health()
  for (const unique of ['one', 'two', 'two']) {
    await tasks.submit(limited, {}, { owner: 'ann', unique, ifExists: 'replace' })
  }
  await eventually(async () => (await engine.counts('shared')).running === 1, 30_000, 'one runs')
  for (const call of ['pause', 'resume'] as const) await tasks[call]('shared')
  const unlimited = createTasks({ ...other, definitions: [free], pools: { shared: {} } })
  await eventually(async () => (await engine.counts('shared')).running === 2, 30_000, 'two run')
  await unlimited.close({ drainMs: 0 })
  const range = { from: 1, to: 2 ** 42, limit: 10, after: { createdAt: 2 ** 41, id: 'a' } }
  for (const order of ['newest', 'oldest'] as const) {
    for (const of of ['all', { owner: 'ann' }] as const) await engine.list({ of, order, ...range })
  }
  const steps = [...statements].filter((sql) => /^(SELECT|UPDATE|DELETE)/.test(sql)).flatMap((sql) => (
    (database.prepare(`EXPLAIN QUERY PLAN ${sql}`).all() as { readonly detail: string }[])
      .map(({ detail }) => detail)
  ))
  assert.ok(steps.length > 30, `${String(steps.length)} steps`)
  // The index of leases has running tasks only.
  const isSlow = /^SCAN longhaul_(?!schema|pauses|tasks USING (COVERING )?INDEX longhaul_tasks_lease)|expiresAt>\?\)/
  assert.deepEqual(steps.filter((step) => isSlow.test(step)), [])
  // After the first page, the position bounds the index, and no other bound.
  const isPage = (sql: string): boolean => sql.includes('(createdAt, id)')
  const bounds = { ' < (': / createdAt < /, ' > (': / createdAt >= / }
  const late = [...statements].filter((sql) => isPage(sql) && Object.entries(bounds).some(([end, other]) => (
    sql.includes(end) && other.test(sql)
  )))
  assert.ok([...statements].some(isPage))
  assert.deepEqual(late, [])
})

test('lists at different times use the same statements', async (t) => {
  const { path } = await open(t)
  let prepared = 0
  const database = openSqlite(path)
  const prepare = database.prepare.bind(database)
  database.prepare = (sql) => (prepared++, prepare(sql))
  const { engine } = sqlite({ database })
  t.after(() => { database.close() })
  const list = async (): Promise<void> => {
    for (const statuses of [undefined, ['scheduled'], ['queued', 'processing']] as const) {
      await engine.list({ of: 'all', names: ['work'], order: 'newest', limit: 10, statuses })
    }
  }
  await list()
  const before = prepared
  t.mock.timers.enable({ apis: ['Date'], now: Date.now() + 1 })
  await list()
  assert.equal(prepared, before)
})

test('no statement has a bare parameter, because SQLite 3.49 would plan it again for each value', async (t) => {
  const statements = new Set<string>()
  const database = noting(openSqlite((await sqliteUrl()).slice('sqlite:'.length)), (sql) => { statements.add(sql) })
  const { store, blobs } = sqlite({ database })
  t.after(async () => {
    await store.close()
    await blobs.close()
    database.close()
  })
  await store.create('key', '1', { ttlMs: 60_000 })
  await store.increment('counter', 1, { ttlMs: 60_000 })
  assert.ok([...statements].some((sql) => sql.includes('+?')))
  assert.deepEqual([...statements].filter((sql) => /[^+]\?/.test(sql)), [])
})

test('a page shows one state of the file, although another process removes tasks meanwhile', async (t) => {
  const { path, database: other, submit } = await open(t)
  await submit()
  await submit()
  const database = noting(openSqlite(path), (sql) => {
    if (sql.endsWith('WHERE rowid = +?')) other.exec('DELETE FROM longhaul_tasks')
  })
  const { engine } = sqlite({ database })
  t.after(() => { database.close() })
  assert.equal((await engine.list({ of: 'all', order: 'oldest', limit: 10 })).length, 2)
  assert.equal((await engine.list({ of: 'all', order: 'oldest', limit: 10 })).length, 0)
})

test('a file of an earlier release gets the index of tenants, which a list of a tenant uses', async (t) => {
  const statements: string[] = []
  const { path, tasks } = await open(t)
  const submitted = await tasks.submit(work, { text: 'hello' }, { owner: 'ann', tenant: 'acme' })
  await submitted.wait({ timeoutMs: 30_000 })
  const other = noting(openSqlite(path), (sql) => { statements.push(sql) })
  t.after(() => { other.close() })
  other.exec('DROP INDEX longhaul_tasks_tenant')
  const { engine } = sqlite({ database: other })
  const page = await engine.list({ of: { caller: 'tenant acme' }, order: 'newest', limit: 10 })
  assert.deepEqual(page.map(({ id }) => id), [submitted.taskId])
  const lists = statements.filter((sql) => /caller = .* AND caller GLOB/s.test(sql) && !sql.includes('INDEXED BY'))
  assert.ok(lists.length > 0)
  for (const sql of lists) {
    const plan = other.prepare(`EXPLAIN QUERY PLAN ${sql.replaceAll('?', '1')}`).all()
    assert.match(JSON.stringify(plan), /USING INDEX longhaul_tasks_tenant/)
  }
})
