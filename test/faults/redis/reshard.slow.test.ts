// Tasks and entries of the store while `redis-cli --cluster reshard` moves their slots, under load.
import assert from 'node:assert/strict'
import { after, test } from 'node:test'
import { Cluster } from 'ioredis'
import { redis } from 'longhaul/redis'
import { isStoreUnavailable } from 'longhaul/stores'
import { Places, type TaskEngine } from '../../../src/engine/engine.js'
import type { NewTask } from '../../../src/engine/task.js'
import { Json } from '../../../src/runtime/json.js'
import { clusterForFile, lowNamespace, moveSlot, openSlot } from '../../servers/redis-cluster.js'
import type { RedisServer } from '../../servers/redis-server.js'
import { eventually, keepAlive, pause } from '../../kit/wait.js'
import { expectListed } from './expect-listed.js'

const MOVES = 6
/** Tasks that are there before the first move, so that moves take some time. */
const TASKS = 3000
const HOUR = 3_600_000
const servers = await clusterForFile()
const namespace = await lowNamespace(servers[0] as RedisServer)
keepAlive({ after })

function open() {
  const client = new Cluster(servers.map(({ port }) => ({ host: '127.0.0.1', port })))
  client.on('error', () => undefined)
  const parts = redis({ client, namespace })
  after(async () => {
    await parts.engine.close({ drainMs: 0 })
    await parts.store.close()
    client.disconnect()
  })
  return parts
}

/** Runs of each task, with their inputs. */
const runs = new Map<string, unknown[]>()

function work({ engine }: { readonly engine: TaskEngine }): void {
  engine.work({ places: new Places(new Map([['default', 10]])), callbacks: 1 }, {
    run: async (run) => {
      runs.set(run.task.id, [...runs.get(run.task.id) ?? [], run.input.value])
      await pause(Math.random() * 20)
      for (;;) {
        try {
          return void (await engine.change(
            run.task,
            { lease: run.lease },
            { status: 'completed', result: '1', keepMs: HOUR },
          ))
        } catch (error) {
          assert.ok(isStoreUnavailable(error), String(error))
          await pause(50)
        }
      }
    },
    callback: async () => undefined, remove: async () => true, abandon: () => undefined,
  })
}

function task(n: number, others: Partial<NewTask> = {}): NewTask {
  const id = `task-${String(n)}`
  return {
    id,
    birth: `birth-${String(n)}`,
    key: `key-${String(n)}`,
    owner: `owner-${String(n % 7)}`,
    caller: `owner-${String(n % 7)}`,
    limit: { group: '', max: 100_000 },
    name: 'report',
    pool: 'default',
    priority: 0,
    input: Json.of({ n }),
    details: { n },
    keepMs: HOUR,
    ...others,
  }
}

test('each acknowledged task and entry exists once, and each task runs once, after its slot has moved under load', async (t) => {
  const [web, other, ...workers] = [open(), open(), open(), open()]
  for (const each of workers) work(each)
  const outcomes = { ok: 0, unavailable: 0 }
  async function call<T>(make: () => T | Promise<T>): Promise<T | undefined> {
    try {
      const result = await make()
      outcomes.ok++
      return result
    } catch (error) {
      assert.ok(isStoreUnavailable(error), String(error))
      outcomes.unavailable++
      return undefined
    }
  }
  const acknowledged: number[] = []
  const [entries, counters] = [new Map<string, string>(), new Map<string, number>()]
  let [next, isOver] = [0, false]
  async function submit(): Promise<void> {
    while (!isOver) {
      const n = next++
      const { engine, store } = n % 2 === 0 ? web : other
      const pool = n % 3 === 0 ? 'waits' : 'default'
      if (await call(() => engine.create(task(n, { pool })))) {
        acknowledged.push(n)
        const read = await call(async () => ({ task: await engine.read(`task-${String(n)}`) }))
        if (read) assert.ok(read.task, `task-${String(n)} is absent`)
      }
      const created = await call(() =>
        store.create(`entry-${String(n)}`, String(n), { ttlMs: HOUR, caller: 'ann', evictable: true }),
      )
      if (created) entries.set(`entry-${String(n)}`, String(n))
      const name = `counter-${String(n % 20)}`
      if (await call(() => store.increment(name, 1, { ttlMs: HOUR }))) counters.set(name, (counters.get(name) ?? 0) + 1)
      if (acknowledged.length > TASKS) await pause(5)
    }
  }
  async function list(): Promise<void> {
    while (!isOver) {
      await call(() => web.engine.list({ of: { owner: 'owner-1' }, order: 'newest', limit: 20 }))
      await call(() => other.engine.readByKey(`key-${String(Math.floor(Math.random() * next))}`))
      await pause(5)
    }
  }
  const load = Promise.all([...Array.from({ length: 10 }, submit), list()])
  await eventually(() => acknowledged.length > TASKS, 60_000, 'tasks are accepted')
  for (let move = 1; move <= MOVES; move++) {
    const began = performance.now()
    const out = await moveSlot(`{${namespace}}:engine:`, servers)
    const moved = out.split('\n').filter((line) => line.startsWith('Moving slot')).length
    t.diagnostic(
      `move ${String(move)}: ${String(moved)} slots in ${String(Math.round(performance.now() - began))} ms, ${String(
        acknowledged.length,
      )} tasks acknowledged, ${JSON.stringify(outcomes)}`,
    )
    const before = acknowledged.length
    await eventually(() => acknowledged.length > before + 50, 60_000, 'tasks are accepted after the move')
  }
  isOver = true
  await load
  const { engine, store } = web
  const ids = acknowledged.map((n) => `task-${String(n)}`)
  const waits = new Set(acknowledged.filter((n) => n % 3 === 0).map((n) => `task-${String(n)}`))
  await eventually(async () => {
    const { running, waiting, delayed } = await engine.counts('default')
    return running + waiting + delayed === 0
  }, 120_000, 'all tasks end')
  for (const [at, id] of ids.entries()) {
    const n = acknowledged[at] as number
    const found = await engine.read(id)
    assert.equal(found?.status, waits.has(id) ? 'queued' : 'completed', id)
    assert.deepEqual(runs.get(id) ?? [], waits.has(id) ? [] : [{ n }], id)
    assert.equal((await engine.readByKey(`key-${String(n)}`))?.id, id)
    const again = await engine.create(task(n, { id: `${id}-again`, birth: 'again' }))
    assert.deepEqual([again.outcome, 'task' in again && again.task.id], ['exists', id])
  }
  for (const owner of Array.from({ length: 7 }, (_, n) => `owner-${String(n)}`)) {
    const own = ids.filter((id) => `owner-${String(Number(id.slice(5)) % 7)}` === owner)
    await expectListed(engine, owner, own)
  }
  for (const [id, inputs] of runs) assert.equal(inputs.length, 1, `${id} ran ${String(inputs.length)} times`)
  for (const [key, value] of entries) assert.equal((await store.get(key))?.value, value)
  for (const [key, least] of counters) {
    const { value } = await store.increment(key, 0, { ttlMs: HOUR })
    assert.ok(value >= least, `${key} is ${String(value)} instead of ${String(least)}`)
  }
  t.diagnostic(`${String(acknowledged.length)} tasks, ${String(entries.size)} entries; ${JSON.stringify(outcomes)}`)
})

test('calls are unavailable within five seconds while a slot moves, tasks can be read, and all calls work afterwards', async () => {
  const { engine } = open()
  work({ engine })
  const waits = { ...task(-1), pool: 'waits' }
  await engine.create(waits)
  const slot = await openSlot(`{${namespace}}:engine:`, servers)
  const began = performance.now()
  await assert.rejects(Promise.resolve(engine.create(task(-2))), { name: 'StoreUnavailableError' })
  assert.ok(performance.now() - began < 5000)
  assert.equal((await engine.read(waits.id))?.status, 'queued')
  await slot.end()
  await eventually(
    async () => (await Promise.resolve(engine.create(task(-3))).catch(() => undefined)) !== undefined,
    20_000,
    'a task is accepted',
  )
  await eventually(async () => (await engine.read('task--3'))?.status === 'completed', 20_000, 'it runs')
  assert.equal((await engine.read(waits.id))?.status, 'queued')
})
