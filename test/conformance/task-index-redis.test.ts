// What the task index on Redis promises beyond the suite: it expires, repairs itself, and is small.
import assert from 'node:assert/strict'
import { describe, test, type TestContext } from 'node:test'
import { Cluster, Redis } from 'ioredis'
import { createTasks, defineTask } from 'longhaul'
import { memory, MemoryQueue } from 'longhaul/memory'
import { redis, RedisTaskIndex } from 'longhaul/redis'
import type { ListEntry, ListedTask } from 'longhaul/stores'
import { clusterForFile } from '../servers/redis-cluster.js'
import { redisUrl } from '../servers/redis-server.js'
import { eventually } from '../unit/tasks/kit.js'

const url = await redisUrl()
const cluster = await clusterForFile()
const report = defineTask({ name: 'report', run: () => new Promise(() => undefined) })

const clients = {
  'a single server': () => new Redis(url),
  'a cluster': () => new Cluster(cluster.map(({ port }) => ({ host: '127.0.0.1', port })), { slotsRefreshTimeout: 20_000 }),
  'a client with a key prefix': () => new Redis(url, { keyPrefix: 'host[1]:' }),
}

let made = 0
const newNamespace = (): string => `lists-${String(process.pid)}-${String(made++)}`
const taskOf = (id: string, more: Partial<ListedTask> = {}): ListedTask => ({
  id, owner: 'ann', name: 'report', status: 'completed', createdAt: 1000, version: 1, ttlMs: 3_600_000, ...more,
})

/** Returns the keys of the index in all servers. */
async function keysOf(client: Redis | Cluster, namespace: string): Promise<string[]> {
  const servers = client instanceof Cluster ? client.nodes('master') : [client]
  const keys = await Promise.all(servers.map((server) => server.keys(`*${namespace}:*`)))
  return keys.flat().filter((key) => /:(tasks|unfinished)/.test(key))
}

for (const [title, open] of Object.entries(clients)) {
  describe(`RedisTaskIndex on ${title}`, () => {
    function setUp(t: TestContext) {
      const client = open()
      const plain = client instanceof Redis ? new Redis(url) : client
      const cleanups: (() => Promise<void>)[] = []
      t.after(async () => {
        for (const cleanup of cleanups) await cleanup()
        for (const each of [client, plain]) each.disconnect()
      })
      const namespace = newNamespace()
      const deleteIndex = async (pattern: RegExp) => {
        for (const key of await keysOf(plain, namespace)) if (pattern.test(key)) await plain.del(key)
      }
      return { client, plain, namespace, deleteIndex, cleanups }
    }

    test('pages of skewed lists are those of the index in memory', async (t) => {
      const { client, namespace } = setUp(t)
      const [index, plain] = [new RedisTaskIndex({ client, namespace }), memory().index]
      // Most tasks are of one name and status, in runs, and many share a millisecond.
      const tasks = Array.from({ length: 600 }, (_, n) => taskOf(`t${String(n)}`, {
        createdAt: Math.floor(n / 7), owner: n % 3 === 0 ? 'bob' : 'ann',
        ...n % 40 < 5 && { name: `name-${String(n % 4)}`, status: n % 2 === 0 ? 'failed' : 'queued' },
      }))
      for (const task of tasks) plain.put(task)
      await Promise.all(tasks.map((task) => index.put(task)))
      for (const order of ['newest', 'oldest'] as const) {
        for (const of of ['all', { owner: 'bob' }] as const) {
          for (const limit of [1, 5, 50, 200]) {
            let after: ListEntry | undefined
            do {
              const page = await index.list({ of, order, limit, after })
              assert.deepEqual(page, plain.list({ of, order, limit, after }))
              after = limit === 1 && page[0]?.createdAt === 20 ? undefined : page.at(-1)
            } while (after)
          }
        }
      }
    })

    test('tasks that have expired are trimmed by later writes, and by sweeps', async (t) => {
      const { client, plain, namespace } = setUp(t)
      const index = new RedisTaskIndex({ client, namespace })
      const gone = Array.from({ length: 10 }, (_, n) => taskOf(`gone-${String(n)}`, { ttlMs: -120_000 }))
      await Promise.all(gone.map((task) => index.put(task)))
      assert.deepEqual(await index.list({ of: 'all', order: 'newest', limit: 20 }), [])
      const noOwner = Array.from({ length: 700 }, (_, n) => taskOf(`old-${String(n)}`, { owner: undefined, ttlMs: 1 }))
      await Promise.all(noOwner.map((task) => index.put(task)))
      await index.put(taskOf('stays'))
      // As if two minutes had passed.
      for (const key of await keysOf(plain, namespace)) {
        if (!/:tasks(:\{\d+\})?$/.test(key)) continue
        const members = await plain.zrange(key, '0', '-1')
        for (const member of members) if (member.startsWith('old-')) await plain.zincrby(key, String(-3 * 2 ** 27), member)
      }
      await eventually(async () => {
        await index.take(10, 1000)
        return (await index.list({ of: 'all', order: 'newest', limit: 20 })).length === 1
      })
      const left = await keysOf(plain, namespace)
      assert.ok(left.length <= 4 + 16, left.join(' '))
    })

    test('lists and checks that were deleted are restored by a worker', async (t) => {
      const { client, plain, namespace, deleteIndex, cleanups } = setUp(t)
      const options = { ...redis({ client, namespace }), queue: new MemoryQueue(), definitions: [report], onError: () => undefined }
      const web = createTasks({ ...options, worker: false, sweepMs: 3_600_000 })
      cleanups.push(() => web.close({ drainMs: 0 }))
      const ids: string[] = []
      for (let n = 0; n < 40; n++) {
        const { taskId } = await web.ownedBy(n % 2 === 0 ? 'ann' : undefined).submit(report, {})
        ids.push(taskId)
      }
      const ended = ids.slice(0, 10)
      for (const id of ended) await web.cancel(id)
      // Sends what waits to be written.
      await web.list()
      await deleteIndex(/./)
      assert.deepEqual((await web.list()).items, [])
      const worker = createTasks({ ...options, queue: new MemoryQueue(), sweepMs: 50 })
      cleanups.push(() => worker.close({ drainMs: 0 }), () => options.store.close())
      await eventually(async () => (await web.list()).items.length === 40)
      assert.equal((await web.ownedBy('ann').list({ status: 'cancelled' })).items.length, 5)
      assert.equal((await web.ownedBy(undefined).list({ status: 'queued' })).items.length, 15)
      const checks = (await keysOf(plain, namespace)).filter((key) => key.includes(':unfinished'))
      const entries = await Promise.all(checks.map((key) => plain.zrange(key, '0', '-1')))
      assert.deepEqual(entries.flat().map((entry) => entry.split('~')[0]).sort(), ids.slice(10).sort())
    })

    test('one deleted set is restored too, and a stale entry of another does not stay', async (t) => {
      const { client, namespace, deleteIndex } = setUp(t)
      const index = new RedisTaskIndex({ client, namespace })
      const idsOf = async (statuses?: ['processing']) => (
        (await index.list({ of: { owner: 'ann' }, order: 'newest', limit: 9, statuses })).map(({ id, status }) => `${id} ${status}`)
      )
      await index.put(taskOf('one', { status: 'processing', version: 2 }))
      await deleteIndex(/:tasks(:\{\d+\})?$/)
      await index.put(taskOf('one', { version: 3 }))
      assert.deepEqual([await idsOf(), await idsOf(['processing'])], [['one completed'], []])
      await deleteIndex(/:report:/)
      assert.deepEqual(await idsOf(), [])
      await index.put(taskOf('one', { version: 3 }))
      assert.deepEqual(await idsOf(), ['one completed'])
    })

    test('lists that are complete are scanned slowly, and those that are not at once', async (t) => {
      const { client, namespace, deleteIndex } = setUp(t)
      const { store, index } = redis({ client, namespace })
      for (let n = 0; n < 30; n++) await store.create(`task:t${String(n)}`, 'x', { ttlMs: 60_000 })
      const pass = async () => {
        const ids = new Set<string>()
        let isUrgent = false
        while (ids.size < 30) {
          const slice = await index.unlisted(10)
          for (const id of slice.ids) ids.add(id)
          isUrgent ||= slice.isUrgent
        }
        return { isUrgent, first: [...ids].sort()[0] }
      }
      assert.deepEqual(await pass(), { isUrgent: true, first: 't0' })
      // The rest of the pass, and the beginning of the next.
      await eventually(async () => !(await index.unlisted(1000)).isUrgent)
      assert.equal((await redis({ client, namespace }).index.unlisted(10)).isUrgent, false)
      await deleteIndex(/:tasks/)
      const fresh = redis({ client, namespace }).index
      assert.equal((await fresh.unlisted(1)).isUrgent, true)
      assert.equal((await redis({ client, namespace }).index.unlisted(1)).isUrgent, false, 'one process scans')
    })
  })
}
