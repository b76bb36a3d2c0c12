import assert from 'node:assert/strict'
import { test, type TestContext } from 'node:test'
import { Json, Places, type RunLimits, type StoredTask, type TaskRun } from 'longhaul/engine'
import { sqlite } from 'longhaul/sqlite'
import { eventually } from '../../kit/wait.js'
import { openSqlite, sqliteUrl, type OpenSqlite } from '../../servers/sqlite.js'

/** Begun runs of one engine on a file, whose statements `note` gets. Runs last until `end`. */
async function open(
  t: TestContext, path: string, limits: RunLimits | undefined, note: (sql: string) => void = () => undefined,
) {
  const database = openSqlite(path)
  const { engine, store, blobs } = sqlite({ database: noting(database, note), leaseMs: 600_000 })
  const runs = new Map<string, { readonly run: TaskRun, readonly end: () => Promise<void> }>()
  const begin = (places = 4): void => {
    engine.work({
      places: new Places(new Map([['narrow', places]])), callbacks: 0,
      ...limits && { limits: new Map([['narrow', limits]]) },
    }, {
      run: (run) => new Promise((resolve) => {
        const { task, lease } = run
        run.onAbort(() => { resolve() })
        runs.set(task.id, {
          run,
          end: async () => {
            await engine.change(task, { lease }, { status: 'completed' })
            resolve()
          },
        })
      }),
      callback: async () => undefined, remove: async () => true, abandon: () => undefined,
    })
  }
  const create = async (id: string, caller: string): Promise<StoredTask> => {
    const created = await engine.create({
      id, birth: id, name: 'work', pool: 'narrow', priority: 0, caller, input: Json.of({}), details: {},
      keepMs: 3_600_000,
    })
    assert.equal(created.outcome, 'created')
    return created.task
  }
  const close = async (): Promise<void> => {
    await engine.close({ drainMs: 0 })
    await store.close()
    await blobs.close()
  }
  t.after(async () => {
    await close()
    database.close()
  })
  const began = (id: string): Promise<void> => eventually(() => runs.has(id), 30_000, `${id} begins`)
  return { engine, runs, begin, create, began, close }
}

function noting(database: OpenSqlite, note: (sql: string) => void): OpenSqlite {
  const prepare = (sql: string): ReturnType<OpenSqlite['prepare']> => {
    const statement = database.prepare(sql)
    return {
      all: (...values) => (note(sql), statement.all(...values)),
      run: (...values) => (note(sql), statement.run(...values)),
    }
  }
  const exec = (sql: string): unknown => (note(sql), database.exec(sql))
  return { prepare, exec, close: () => { database.close() } }
}

async function newPath(): Promise<string> {
  return (await sqliteUrl()).slice('sqlite:'.length)
}

test('one transaction marks at most 500 tasks as held, and later takes do not read them', async (t) => {
  let [most, now] = [0, 0]
  let all = 0
  const { begin, create, began, runs } = await open(t, await newPath(), { maxPerCaller: 1 }, (sql) => {
    if (sql === 'BEGIN IMMEDIATE') now = 0
    if (!/^UPDATE longhaul_tasks SET turn = \S+, held = \S+ WHERE/.test(sql)) return
    most = Math.max(most, ++now)
    all++
  })
  await Promise.all(Array.from({ length: 1200 }, (_, n) => create(`ann-${String(n)}`, 'ann')))
  begin()
  await began('ann-0')
  await eventually(() => all === 1199, 30_000, 'the other tasks are held')
  assert.ok(most <= 500, `${String(most)} tasks in one transaction`)
  for (const caller of ['bob', 'cid']) {
    await create(caller, caller)
    await began(caller)
  }
  assert.equal(all, 1199)
  await runs.get('ann-0')?.end()
  await began('ann-1')
  assert.equal(all, 1200)
})

test('a pool that is full or paused makes no transaction while its worker looks for work', async (t) => {
  let [looks, transactions] = [0, 0]
  const { engine, begin, create, began, runs } = await open(
    t, await newPath(), { maxRunning: 1, startsPer: { count: 5, ms: 86_400_000 } }, (sql) => {
      if (sql.includes('status = 1 AND turn IS NULL') && sql.startsWith('SELECT min')) looks++
      if (sql === 'BEGIN IMMEDIATE') transactions++
    },
  )
  const looksOnly = async (): Promise<void> => {
    looks = 0
    await eventually(() => looks >= 1, 30_000, 'the worker looks')
    transactions = 0
    await eventually(() => looks >= 3, 30_000, 'the worker looks')
    assert.equal(transactions, 0)
  }
  begin()
  await create('first', 'ann')
  await began('first')
  for (const id of ['second', 'third']) await create(id, 'bob')
  await looksOnly()
  await engine.setPaused('narrow', true)
  await runs.get('first')?.end()
  await looksOnly()
  await engine.setPaused('narrow', false)
  await began('second')
  assert.equal(runs.has('third'), false)
})

test('a clock that is set back closes a pool with startsPer for no longer than the window', async (t) => {
  const { begin, create, began } = await open(t, await newPath(), { startsPer: { count: 1, ms: 200 } })
  begin()
  await create('first', 'ann')
  await began('first')
  const { now } = Date
  t.mock.method(Date, 'now', () => now() - 3_600_000)
  await create('second', 'ann')
  await began('second')
})

test('a worker without limits runs tasks that a worker with limits has marked as held', async (t) => {
  const path = await newPath()
  const first = await open(t, path, { maxPerCaller: 1 })
  first.begin()
  for (const id of ['one', 'two', 'three']) await first.create(id, 'ann')
  await first.began('one')
  await eventually(async () => (await first.engine.counts('narrow')).waiting === 2, 30_000, 'two are held')
  await first.close()
  const second = await open(t, path, undefined)
  second.begin()
  for (const id of ['two', 'three']) await second.began(id)
})

test('a held task begins when the running task of its caller expires', async (t) => {
  const { engine, begin, create, began } = await open(t, await newPath(), { maxPerCaller: 1 })
  begin()
  const task = await create('one', 'ann')
  await began('one')
  await create('two', 'ann')
  await engine.change(task, { version: 2 }, { keepMs: 0 })
  await began('two')
})
