// Options of ioredis, and rights of its user, with which replies or keys differ from those by default.
import assert from 'node:assert/strict'
import { once } from 'node:events'
import { describe, test, type TestContext } from 'node:test'
import { Cluster, Command, Redis, type RedisOptions } from 'ioredis'
import { Cluster as Cluster5, Command as Command5, Redis as Redis5 } from 'ioredis5'
import { createTasks, defineTask } from 'longhaul'
import { redis, type RedisClient } from 'longhaul/redis'
import { isStoreUnavailable } from 'longhaul/stores'
import { clusterForFile } from '../../servers/redis-cluster.js'
import { redisVersion } from '../../servers/redis-binary.js'
import { redisForFile } from '../../servers/redis-server.js'
import { eventually } from '../../kit/wait.js'

const server = await redisForFile()
/** Rights to channels came with Redis 6.2. Before, users have all of them. */
const hasChannelRights = redisVersion() >= 6.2

function clientOf(t: TestContext, options: RedisOptions = {}, make = Redis): Redis {
  const client = new make(server.url, options as object)
  client.on('error', () => undefined)
  t.after(() => { client.disconnect() })
  return client
}

/** Uses every part of the engine and of the store. */
async function expectAllWorks(t: TestContext, client: RedisClient, namespace: string): Promise<void> {
  const errors: unknown[] = []
  const onError = (error: unknown): void => { errors.push(error) }
  // So short a lease is renewed while the task runs.
  const parts = redis({ client, namespace, leaseMs: 400 })
  const work = defineTask({
    name: 'work', priority: 5, run: async ({ n }: { n: number }, { progress }) => {
      progress(1, 2)
      await new Promise((resolve) => { setTimeout(resolve, 500) })
      return { n }
    },
  })
  const tasks = createTasks({ ...parts, definitions: [work], onError })
  const { engine, store } = parts
  t.after(async () => {
    await tasks.close({ drainMs: 0 })
    await store.close()
  })
  const before = Date.now() - 60_000
  const later = await tasks.submit(work, { n: 0 }, { owner: 'ann', startAt: new Date(Date.now() + 60_000) })
  const soon = await tasks.submit(work, { n: 1 }, { owner: 'ann', delayMs: 100 })
  const now = await tasks.submit(work, { n: 1.5 }, { owner: 'ann' })
  const ended = await now.wait({ timeoutMs: 20_000 })
  assert.ok(ended?.status === 'completed' && ended.result.n === 1.5, `${String(ended?.status)} ${errors.join()}`)
  assert.ok(ended.createdAt.getTime() > before)
  assert.equal((await soon.wait({ timeoutMs: 20_000 }))?.status, 'completed')
  assert.equal((await later.get())?.status, 'scheduled')
  const listed = (await tasks.ownedBy('ann').list()).items
  assert.deepEqual(listed.map(({ taskId }) => taskId).sort(), [later.taskId, soon.taskId, now.taskId].sort())
  assert.deepEqual(await tasks.pools(), [{ pool: 'default', running: 0, waiting: 0, delayed: 1, isPaused: false }])
  assert.equal(typeof await engine.now(), 'number')
  const { task } = await engine.create({
    id: 'one', birth: 'b', key: 'k', owner: undefined, caller: undefined, name: 'other', pool: 'nobody', priority: 1,
    input: { text: '{}' }, details: {}, start: undefined, keepMs: 60_000, hasFiles: false, limit: undefined,
  } as never) as { task: object }
  for (const stored of [task, await engine.read('one'), await engine.readByKey('k')] as Record<string, unknown>[]) {
    for (const property of ['version', 'run', 'createdAt', 'expiresAt', 'priority']) {
      assert.equal(typeof stored[property], 'number', property)
    }
  }
  const { oldestWaitingMs, ...counts } = await engine.counts('nobody')
  assert.deepEqual(counts, { running: 0, waiting: 1, delayed: 0 })
  assert.equal(typeof oldestWaitingMs, 'number')
  let notices = 0
  const options = { ttlMs: 60_000 }
  await store.watch('key', () => { notices++ })
  const made = await store.create('key', 'value', { ...options, caller: 'ann', evictable: true })
  assert.ok(made.created)
  assert.equal((await store.create('key', 'other', options)).created, false)
  assert.equal((await store.get('key'))?.value, 'value')
  const next = await store.replace('key', 'next', made.revision, options)
  assert.ok(next.replaced)
  assert.equal((await store.replace('key', 'late', made.revision, options)).replaced, false)
  assert.equal(await store.delete('key', made.revision), false)
  assert.equal(await store.delete('key', next.revision), true)
  await eventually(() => notices > 0, 30_000, 'a notice comes')
  await store.increment('count', 2, options)
  const { value, resetMs } = await store.increment('count', 3, options)
  assert.ok(value === 5 && typeof resetMs === 'number' && resetMs > 0)
  assert.equal((await later.cancel())?.status, 'cancelled')
  assert.equal((await tasks.health()).ok, true)
  assert.deepEqual(errors, [])
}

const SETTINGS: Readonly<Record<string, RedisOptions>> = {
  'stringNumbers': { stringNumbers: true },
  'stringNumbers and maxRetriesPerRequest: null': { stringNumbers: true, maxRetriesPerRequest: null },
  'keyPrefix': { keyPrefix: 'app:' },
  'a keyPrefix with a hash tag': { keyPrefix: '{app}:' },
  'enableAutoPipelining': { enableAutoPipelining: true },
  'maxRetriesPerRequest: 0': { maxRetriesPerRequest: 0 },
  'another db': { db: 3 },
  'showFriendlyErrorStack': { showFriendlyErrorStack: true },
  'lazyConnect': { lazyConnect: true, maxRetriesPerRequest: null },
  'enableReadyCheck: false': { enableReadyCheck: false, maxRetriesPerRequest: null },
  'commandTimeout with socketTimeout': { commandTimeout: 5000, socketTimeout: 5000 },
  'enableOfflineQueue: false': { enableOfflineQueue: false },
}

const SETTINGS_OF_6: typeof SETTINGS = {
  'protocol: 2': { protocol: 2, maxRetriesPerRequest: null },
  'replyMapping: resp3': { replyMapping: 'resp3', maxRetriesPerRequest: null },
}

const MAJORS = {
  'ioredis 6': {
    make: Redis, cluster: Cluster, command: Command, settings: { ...SETTINGS, ...SETTINGS_OF_6 },
  },
  'ioredis 5': {
    make: Redis5 as unknown as typeof Redis, cluster: Cluster5 as unknown as typeof Cluster,
    command: Command5 as unknown as typeof Command, settings: SETTINGS,
  },
}

describe('Redis with settings of the client', () => {
  for (const [major, { make, cluster, command, settings }] of Object.entries(MAJORS)) {
    for (const [n, [name, options]] of Object.entries(settings).entries()) {
      test(`${name} works with ${major}`, async (t) => {
        const client = clientOf(t, options, make)
        if (options.enableOfflineQueue === false) await once(client, 'ready')
        await expectAllWorks(t, client, `n${String(n)}-${major.slice(-1)}`)
      })
    }

    test(`stringNumbers and keyPrefix work in a Cluster with ${major}`, async (t) => {
      const nodes = (await clusterForFile()).map(({ port }) => ({ host: '127.0.0.1', port }))
      const client = new cluster(nodes, { keyPrefix: 'app:', redisOptions: { stringNumbers: true } })
      client.on('error', () => undefined)
      t.after(() => { client.disconnect() })
      await expectAllWorks(t, client, 'settings')
    })

    test(`select() before the first use works with ${major}`, async (t) => {
      const client = clientOf(t, {}, make)
      await client.select(5)
      await expectAllWorks(t, client, `selected-${major.slice(-1)}`)
    })

    test(`a transformer of the replies to HGETALL works with ${major}`, async (t) => {
      const { reply } = (command as unknown as { _transformer: { reply: Record<string, never> } })._transformer
      const { hgetall } = reply
      t.after(() => { Object.assign(reply, { hgetall }) })
      command.setReplyTransformer('hgetall', () => new Map())
      await expectAllWorks(t, clientOf(t, { maxRetriesPerRequest: null }, make), `transformed-${major.slice(-1)}`)
    })

    test(`a user with the rights of the guide works with ${major}`, async (t) => {
      const admin = clientOf(t)
      const namespace = `acl-${major.slice(-1)}`
      const patterns = [`~{${namespace}}:*`, `~${namespace}:*`]
      if (hasChannelRights) patterns.push('resetchannels', `&{${namespace}}:*`, `&${namespace}:*`)
      await admin.acl('SETUSER', 'app', 'reset', 'on', '>secret', ...patterns, '+@all', '-@dangerous', '+info')
      await admin.acl('LOG', 'RESET')
      await expectAllWorks(t, clientOf(t, { username: 'app', password: 'secret' }, make), namespace)
      const log = await admin.acl('LOG') as unknown[][]
      // ioredis tells its name. Before Redis 7, that needs the right to all of CLIENT, and ioredis works without.
      assert.deepEqual(log.filter((entry) => !entry.includes('client')), [])
    })
  }

  test('two applications in two databases share a namespace, and neither sees tasks of the other', async (t) => {
    const work = defineTask({ name: 'work', run: (n: number) => n })
    const open = (db: number) => {
      const parts = redis({ client: clientOf(t, { db }), namespace: 'shared' })
      const tasks = createTasks({ ...parts, definitions: [work] })
      t.after(async () => {
        await tasks.close({ drainMs: 0 })
        await parts.store.close()
      })
      return tasks
    }
    const [one, two] = [open(1), open(2)]
    const [first, second] = await Promise.all([one.submit(work, 1), two.submit(work, 2)])
    assert.equal((await first.wait({ timeoutMs: 20_000 }))?.status, 'completed')
    assert.equal((await second.wait({ timeoutMs: 20_000 }))?.status, 'completed')
    assert.deepEqual((await one.list()).items.map(({ taskId }) => taskId), [first.taskId])
    assert.equal(await one.get(second.taskId), undefined)
  })

  test('a user without INFO runs tasks', async (t) => {
    const admin = clientOf(t)
    await admin.acl(
      'SETUSER',
      'noinfo',
      'reset',
      'on',
      '>secret',
      '~*',
      ...(hasChannelRights ? ['&*'] : []),
      '+@all',
      '-@dangerous',
    )
    await expectAllWorks(t, clientOf(t, { username: 'noinfo', password: 'secret', enableReadyCheck: false }), 'noinfo')
  })

  test('a user who may not access the keys of the store makes it unavailable, with the error of Redis', async (t) => {
    const admin = clientOf(t)
    await admin.acl(
      'SETUSER',
      'half',
      'reset',
      'on',
      '>secret',
      '~{half}:*',
      ...(hasChannelRights ? ['resetchannels', '&{half}:*'] : []),
      '+@all',
    )
    const { engine, store } = redis({
      client: clientOf(t, { username: 'half', password: 'secret' }),
      namespace: 'half',
    })
    t.after(async () => {
      await engine.close({ drainMs: 0 })
      await store.close()
    })
    assert.equal(await engine.readByKey('nobody'), undefined)
    const error = await store.get('key').catch((reason: unknown) => reason)
    assert.ok(isStoreUnavailable(error))
    assert.match(error.message, /NOPERM/)
  })
})
