// Commands of the Redis engine that are sent twice, lose their reply, or reach a server without memory; and its keys.
import assert from 'node:assert/strict'
import { after, test, type TestContext } from 'node:test'
import { Redis } from 'ioredis'
import { redis as makeParts, type RedisClient } from 'longhaul/redis'
import { RedisTaskEngine } from '../../adapters/redis/engine.js'
import { LOOK, TURN } from '../../adapters/redis/work-scripts.js'
import { Places, type TaskRun } from '../../src/engine/engine.js'
import type { NewTask } from '../../src/engine/task.js'
import { Json } from '../../src/runtime/json.js'
import { redisForFile } from '../servers/redis-server.js'
import { deferred, eventually } from '../kit/wait.js'

const server = await redisForFile()
const redis = new Redis(server.url, { maxRetriesPerRequest: null })
after(() => { redis.disconnect() })
let names = 0

function open(t: TestContext, client: RedisClient = redis): { engine: RedisTaskEngine, namespace: string } {
  const namespace = `calls-${String(++names)}`
  const engine = new RedisTaskEngine({ client, namespace })
  t.after(() => engine.close({ drainMs: 0 }))
  return { engine, namespace }
}

function task(id: string, others: Partial<NewTask> = {}): NewTask {
  return {
    id, birth: `birth of ${id}`, name: 'report', pool: 'default', priority: 0, input: Json.of(id), details: {},
    keepMs: 60_000, ...others,
  }
}

/** Works, and records the ids of the runs that began. */
function work(
  engine: RedisTaskEngine, perform?: (run: TaskRun) => Promise<void>, status: 'completed' | 'failed' = 'completed',
): string[] {
  const begun: string[] = []
  engine.work({ places: new Places(new Map([['default', 2]])), callbacks: 2 }, {
    run: async (run) => {
      begun.push(run.task.id)
      await perform?.(run)
      await engine.change(run.task, { lease: run.lease }, { status })
    },
    callback: async () => undefined, remove: async () => true, abandon: () => undefined,
  })
  return begun
}

test('tasks expire in a server whose memory is full, which makes room for others', async (t) => {
  const { engine, namespace } = open(t)
  await engine.create(task('brief', { keepMs: 1500 }))
  const begun = work(engine)
  await eventually(async () => (await engine.read('brief'))?.status === 'completed', 30_000, 'it has run')
  assert.deepEqual(begun, ['brief'])
  await redis.config('SET', 'maxmemory', '1')
  t.after(() => redis.config('SET', 'maxmemory', '0'))
  await eventually(async () => await redis.exists(`{${namespace}}:engine:h:brief`) === 0, 30_000, 'its row is gone')
})

test('the clock of a process does not decide whether a task has expired', async (t) => {
  const { engine } = open(t)
  const now = Date.now
  t.mock.method(Date, 'now', () => now() - 3_600_000)
  await engine.create(task('brief', { keepMs: 300 }))
  assert.equal((await engine.read('brief'))?.id, 'brief')
  await new Promise((resolve) => { setTimeout(resolve, 350) })
  assert.equal(await engine.read('brief'), undefined)
})

test('a client that reads from the replicas of a Cluster reads tasks from its primaries', async (t) => {
  const lags = new Redis(server.url, { maxRetriesPerRequest: null })
  t.after(() => { lags.disconnect() })
  Object.assign(lags.options, { scaleReads: 'slave' })
  Object.assign(lags, { get: async () => null, hmget: async () => [null, null, null] })
  const { engine, store } = makeParts({ client: lags, namespace: `calls-${String(++names)}` })
  t.after(() => engine.close({ drainMs: 0 }))
  await engine.create(task('new'))
  for (const _ of 'twice') assert.equal((await engine.read('new'))?.id, 'new')
  await store.create('entry', 'value', { ttlMs: 60_000 })
  assert.equal((await store.get('entry'))?.value, 'value')
})

test('a task whose start has come is listed under its current status, even after a change of its pool', async (t) => {
  const { engine } = open(t)
  await engine.create(task('later', { start: { delayMs: 100 } }))
  await new Promise((resolve) => { setTimeout(resolve, 150) })
  assert.equal((await engine.change(task('later'), { version: 1 }, { pool: 'default' })).outcome, 'changed')
  const listed = async (): Promise<number> => (
    (await engine.list({ of: 'all', statuses: ['queued', 'processing'], order: 'oldest', limit: 10 })).length
  )
  assert.equal(await listed(), 1)
  const latch = deferred()
  const begun = work(engine, () => latch.promise)
  await eventually(() => begun.length === 1, 30_000, 'it runs')
  assert.equal(await listed(), 1)
  latch.resolve()
})

test('a command that the client sends twice makes one change', async (t) => {
  const twice = new Redis(server.url, { maxRetriesPerRequest: null })
  t.after(() => { twice.disconnect() })
  const send = twice.evalsha.bind(twice) as (...args: unknown[]) => Promise<unknown>
  Object.assign(twice, {
    evalsha: async (sha: string, ...args: unknown[]) => {
      // What is due, and runs that begin, come once.
      if (sha !== LOOK.sha && !String(args[3]).includes('"lease":"')) await send(sha, ...args)
      return send(sha, ...args)
    },
  })
  const { engine } = open(t, twice)
  const limit = { group: '', max: 1 }
  const created = await engine.create(task('one', { caller: 'ann', limit }))
  assert.equal(created.outcome, 'created')
  const runs: TaskRun[] = []
  const begun = work(engine, async (run) => {
    runs.push(run)
    const changed = await engine.change(run.task, { lease: run.lease }, { details: { n: 1 } })
    assert.equal(changed.outcome === 'changed' && changed.task.version, run.task.version + 1)
  }, 'failed')
  await eventually(async () => (await engine.read('one'))?.status === 'failed', 30_000, 'it has failed')
  assert.deepEqual([begun, runs[0]?.task.run, runs[0]?.input.value], [['one'], 1, 'one'])
  const again = await engine.change(task('one'), { version: 4 }, { status: 'queued', limit })
  assert.equal(again.outcome, 'changed')
  await eventually(async () => (await engine.read('one'))?.status === 'failed', 30_000, 'it has failed again')
  assert.equal(begun.length, 2, 'it runs again, once')
})

test('a client with a key prefix writes all keys under this prefix', async (t) => {
  const client = new Redis(server.url, { keyPrefix: 'shop:', db: 1 })
  t.after(() => { client.disconnect() })
  const { engine, namespace } = open(t, client)
  const begun = work(engine)
  await engine.create(task('one', { key: 'key' }))
  await eventually(async () => (await engine.readByKey('key'))?.status === 'completed', 30_000, 'it runs')
  assert.deepEqual(begun, ['one'])
  const plain = new Redis(server.url, { db: 1 })
  t.after(() => { plain.disconnect() })
  const keys = await plain.keys('*')
  assert.deepEqual(keys.filter((key) => !key.startsWith(`shop:{${namespace}}:engine:`)), [])
  assert.deepEqual((await engine.list({ of: 'all', order: 'newest', limit: 10 })).map(({ id }) => id), ['one'])
})

test('expired tasks leave nothing but the names of definitions and pools', async (t) => {
  const { engine, namespace } = open(t)
  const begun = work(engine)
  const every = { owner: 'ann', caller: 'ann', limit: { group: '', max: 9 }, keepMs: 300 }
  await engine.create(task('one', { ...every, key: 'key' }))
  await engine.create(task('two', { ...every, start: { delayMs: 60_000 }, keepMs: -59_700 }))
  await engine.create(task('three', { ...every, pool: 'nobody' }))
  await engine.create(task('four', { ...every, pool: 'nobody', hasFiles: true }))
  await eventually(() => begun.length === 1, 30_000, 'one runs')
  const left = [`{${namespace}}:engine:exp`]
  await eventually(async () => {
    const keys = await redis.keys(`{${namespace}}:engine:*`)
    return keys.sort().join() === left.join()
  }, 8000, 'all keys go')
})

// A policy such as volatile-lru removes keys that have one, and a removed hash stays in its caller's share.
test('no key of a task has an expiry in Redis', async (t) => {
  const { engine, namespace } = open(t)
  work(engine)
  await engine.create(task('one', { key: 'key', owner: 'ann', caller: 'ann', limit: { group: '', max: 9 } }))
  await eventually(async () => (await engine.read('one'))?.status === 'completed', 30_000, 'it is completed')
  const keys = await redis.keys(`{${namespace}}:engine:*`)
  assert.ok(keys.includes(`{${namespace}}:engine:h:one`))
  assert.deepEqual(await Promise.all(keys.map((key) => redis.pttl(key))), keys.map(() => -1))
})

test('runs whose begin had no reply, or was sent twice, are given back within two seconds and count as no crash', async (t) => {
  const lossy = new Redis(server.url, { maxRetriesPerRequest: null })
  t.after(() => {
    lossy.disconnect()
  })
  const send = lossy.evalsha.bind(lossy) as (...args: unknown[]) => Promise<unknown>
  let [lost, twice] = [0, 0]
  Object.assign(lossy, {
    evalsha: async (sha: string, ...args: unknown[]) => {
      const reply = await send(sha, ...args)
      if (sha !== TURN.sha || !String(args[3]).includes('"lease"')) return reply
      // A turn without changes has no more arguments. Its reply is lost, and that of others is the second one.
      if (args.length === 4 && lost++ < 2) throw new Error('Connection is closed.')
      return twice++ < 2 ? send(sha, ...args) : reply
    },
  })
  const { engine } = open(t, lossy)
  const runs: TaskRun[] = []
  work(engine, async (run) => {
    runs.push(run)
  })
  const ids = ['one', 'two', 'three', 'four', 'five', 'six']
  await Promise.all(ids.map((id) => engine.create(task(id, { caller: id }))))
  for (const id of ids) {
    await eventually(async () => (await engine.read(id))?.status === 'completed', 10_000, 'it is completed')
  }
  assert.ok(lost > 0 && twice > 0, 'replies were lost')
  assert.deepEqual(runs.map((run) => run.task.id).sort(), ids.toSorted())
  for (const {
    task: { attempt, crashes },
    crashed,
  } of runs)
    assert.deepEqual([attempt, crashes, crashed], [1, 0, undefined])
})

test('a task that a script cannot read does not affect other changes of the same turn', async (t) => {
  const { engine, namespace } = open(t)
  for (const id of ['one', 'broken', 'two']) await engine.create(task(id, { pool: 'nobody' }))
  await redis.hset(`{${namespace}}:engine:h:broken`, 'm', 'not JSON')
  const [one, broken, two] = await Promise.allSettled(['one', 'broken', 'two'].map((id) => (
    engine.change(task(id), { version: 1 }, { status: 'cancelled' })
  )))
  assert.equal(broken?.status, 'rejected')
  for (const each of [one, two]) assert.equal(each?.status === 'fulfilled' && each.value.outcome, 'changed')
})

test('an option that is unknown or out of range is a TypeError', () => {
  for (const [options, message] of [
    [{ client: {} }, /must be an ioredis client/],
    [{ client: redis, lease: 1 }, /lease/],
    [{ client: redis, leaseMs: 1 }, /leaseMs must be a number of milliseconds from 100 to/],
    [{ client: redis, timeoutMs: 1e6 }, /timeoutMs/],
    [{ client: redis, namespace: 'a b' }, /namespace/],
    [{ client: redis, maxBytesPerOwner: 0 }, /maxBytesPerOwner/],
  ] as const) {
    for (const make of [() => new RedisTaskEngine(options as never), () => makeParts(options as never)]) {
      assert.throws(make, (error) => error instanceof TypeError && message.test(error.message))
    }
  }
})

test('redis() makes an engine and a store with the same namespace and bounds', async (t) => {
  const options = { client: redis, namespace: 'parts', maxEntriesPerOwner: 1 }
  const [one, other] = [makeParts(options), makeParts(options)]
  for (const { engine, store } of [one, other])
    t.after(() => Promise.all([engine.close({ drainMs: 0 }), store.close()]))
  await one.engine.create(task('one'))
  assert.equal((await other.engine.read('one'))?.id, 'one')
  for (const key of ['first', 'second'])
    await one.store.create(key, key, { ttlMs: 60_000, caller: 'ann', evictable: true })
  await eventually(async () => await other.store.get('first') === undefined, 30_000, 'the oldest entry goes')
  assert.equal((await other.store.get('second'))?.value, 'second')
})

test('a closed engine still reads, changes and watches tasks, and other processes run its tasks', async (t) => {
  const { engine, namespace } = open(t)
  work(engine)
  await engine.close({ drainMs: 0 })
  let notices = 0
  const stop = await engine.watch('one', () => { notices++ })
  const created = await engine.create(task('one'))
  assert.equal(created.outcome, 'created')
  const other = new RedisTaskEngine({ client: redis, namespace })
  t.after(() => other.close({ drainMs: 0 }))
  const begun = work(other)
  await eventually(async () => (await engine.read('one'))?.status === 'completed', 30_000, 'it runs')
  assert.deepEqual(begun, ['one'])
  await eventually(() => notices >= 3, 30_000, 'each change is noticed')
  stop()
})
