// A Redis that responds, but takes no task: it has become a replica, is cut off from its replicas,
// is full, cannot save, or loads.
import assert from 'node:assert/strict'
import { rmSync } from 'node:fs'
import { describe, test, type TestContext } from 'node:test'
import { Cluster, Redis, type RedisOptions } from 'ioredis'
import { Redis as Redis5 } from 'ioredis5'
import { createTasks, defineTask } from 'longhaul'
import { redis as parts, type RedisClient } from 'longhaul/redis'
import { isStoreUnavailable } from 'longhaul/stores'
import { RedisStore } from '../../../adapters/redis/store.js'
import { clusterForFile } from '../../servers/redis-cluster.js'
import { redisVersion } from '../../servers/redis-binary.js'
import { RedisServer, say } from '../../servers/redis-server.js'
import { TcpProxy } from '../../servers/tcp-proxy.js'
import { eventually } from '../../kit/wait.js'

/** Maximum time until all works again, in milliseconds. A connection that is not left stays on the replica. */
const HEALED_MS = 30_000

async function serverFor(t: TestContext, args: readonly string[] = []): Promise<RedisServer> {
  const server = await RedisServer.start(['--repl-diskless-sync-delay', '0', ...args])
  t.after(() => server.stop())
  return server
}

async function follow(replica: RedisServer, primary: RedisServer): Promise<void> {
  assert.equal(await say(replica.port, `REPLICAOF 127.0.0.1 ${String(primary.port)}`), '+OK\r\n')
  await eventually(
    async () => (await say(replica.port, 'INFO replication'))?.includes('master_link_status:up') ?? false,
    HEALED_MS,
    'the replica follows',
  )
}

/** The two servers change roles. The address leads to the new primary, and connections to the old one stay. */
async function failOver({ port }: RedisServer, next: RedisServer, proxy: TcpProxy): Promise<void> {
  assert.equal(await say(next.port, 'REPLICAOF NO ONE'), '+OK\r\n')
  assert.equal(await say(port, `REPLICAOF 127.0.0.1 ${String(next.port)}`), '+OK\r\n')
  await eventually(
    async () => (await say(port, 'INFO replication'))?.includes('role:slave') ?? false,
    HEALED_MS,
    'the old primary is a replica',
  )
  proxy.leadTo(next.port)
}

async function siteFor(t: TestContext): Promise<{ primary: RedisServer, replica: RedisServer, proxy: TcpProxy }> {
  const [primary, replica] = await Promise.all([serverFor(t), serverFor(t)])
  await follow(replica, primary)
  const proxy = await TcpProxy.to(primary.port)
  t.after(() => { proxy.close() })
  return { primary, replica, proxy }
}

function clientOf(t: TestContext, port: number, options: RedisOptions = {}, make = Redis): Redis {
  const client = new make({ port, host: '127.0.0.1', retryStrategy: () => 50, ...options } as object)
  client.on('error', () => undefined)
  t.after(() => { client.disconnect() })
  return client
}

function tasksOn(t: TestContext, client: RedisClient, worker = true) {
  const ran: number[] = []
  const work = defineTask({ name: 'work', run: (nth: number) => { ran.push(nth) } })
  const { engine, store } = parts({ client })
  const tasks = createTasks({ engine, store, definitions: [work], worker, onError: () => undefined })
  t.after(async () => {
    await tasks.close({ drainMs: 0 })
    await store.close()
  })
  return { tasks, ran, submit: (nth: number) => tasks.submit(work, nth) }
}

describe('after the Redis behind an address has become a replica', () => {
  const clients: Record<string, (t: TestContext, port: number) => Redis> = {
    'a client that retries each command for ever': (t, port) => clientOf(t, port, { maxRetriesPerRequest: null }),
    'a client with default options': (t, port) => clientOf(t, port),
    'a client of ioredis 5': (t, port) => clientOf(t, port, {}, Redis5 as unknown as typeof Redis),
  }
  for (const [name, open] of Object.entries(clients)) {
    test(`${name} runs tasks on the new primary`, async (t) => {
      const { primary, replica, proxy } = await siteFor(t)
      const { tasks, ran, submit } = tasksOn(t, open(t, proxy.port))
      await submit(0)
      await eventually(() => ran.includes(0), HEALED_MS, 'the worker works')
      await failOver(primary, replica, proxy)
      let nth = 0
      await eventually(() => submit(++nth).then(() => true, () => false), HEALED_MS, 'tasks are accepted')
      await eventually(() => ran.includes(nth), HEALED_MS, 'the accepted task runs')
      await eventually(async () => (await tasks.health()).ok, HEALED_MS, 'it is healthy')
    })
  }

  test('a store writes to the new primary, and its watches are notified', async (t) => {
    const { primary, replica, proxy } = await siteFor(t)
    const store = new RedisStore({ client: clientOf(t, proxy.port) })
    t.after(() => store.close())
    let notices = 0
    await store.watch('watched', () => { notices++ })
    await store.create('watched', 'a', { ttlMs: 600_000 })
    await failOver(primary, replica, proxy)
    await assert.rejects(store.create('refused', 'a', { ttlMs: 60_000 }), { name: 'StoreUnavailableError' })
    await eventually(
      async () =>
        store.increment('count', 1, { ttlMs: 60_000 }).then(
          () => true,
          () => false,
        ),
      HEALED_MS,
      'it writes',
    )
    // Without the old server, notices come only over a connection to the new one.
    await primary.kill()
    notices = 0
    const other = new RedisStore({ client: clientOf(t, replica.port) })
    t.after(() => other.close())
    await eventually(async () => {
      await other.replace('watched', 'b', (await other.get('watched'))?.revision ?? '', {})
      return notices > 0
    }, HEALED_MS, 'a notice comes')
  })

  test('health() alone makes an idle process find the new primary', async (t) => {
    const { primary, replica, proxy } = await siteFor(t)
    const { tasks } = tasksOn(t, clientOf(t, proxy.port), false)
    assert.equal((await tasks.health()).ok, true)
    await failOver(primary, replica, proxy)
    const { ok, error } = await tasks.health()
    assert.ok(!ok && isStoreUnavailable(error))
    assert.match(error.message, /READONLY/)
    await eventually(async () => (await tasks.health()).ok, HEALED_MS, 'it is healthy')
  })

  test('the client of the application reads as long as the address leads to the replica', async (t) => {
    const { primary, replica } = await siteFor(t)
    const client = clientOf(t, replica.port)
    const store = new RedisStore({ client })
    t.after(() => store.close())
    assert.equal(await say(primary.port, 'SET mine 1'), '+OK\r\n')
    await eventually(async () => await client.get('mine') === '1', HEALED_MS, 'the replica has it')
    const connections = async (): Promise<number> => (
      Number(/total_connections_received:(\d+)/.exec(await say(replica.port, 'INFO stats') ?? '')?.[1])
    )
    const before = await connections()
    for (let n = 0; n < 200; n++) {
      await assert.rejects(store.increment('count', 1, { ttlMs: 60_000 }), { name: 'StoreUnavailableError' })
      assert.equal(await client.get('mine'), '1')
    }
    const opened = await connections() - before
    assert.ok(opened < 100, `${String(opened)} connections for 200 errors`)
  })

  test('a client that does not reconnect keeps its connection', async (t) => {
    const { replica } = await siteFor(t)
    const client = clientOf(t, replica.port, { retryStrategy: () => null })
    const never = clientOf(t, replica.port)
    ;(never.options as { retryStrategy: unknown }).retryStrategy = null
    const store = new RedisStore({ client: never })
    t.after(() => store.close())
    await assert.rejects(store.increment('count', 1, { ttlMs: 60_000 }), { name: 'StoreUnavailableError' })
    assert.equal(await never.get('any'), null)
    assert.equal(await client.get('any'), null)
  })
})

describe('tasks.health on Redis', () => {
  /** Expects an error while `fault` holds, and health afterwards. */
  async function reports(t: TestContext, port: number, expected: RegExp, { fault, end }: {
    readonly fault: () => Promise<unknown>, readonly end: () => Promise<unknown>,
  }): Promise<void> {
    const { tasks, submit } = tasksOn(t, clientOf(t, port), false)
    assert.equal((await tasks.health()).ok, true)
    await fault()
    await assert.rejects(submit(1), { name: 'StoreUnavailableError', message: expected })
    const { ok, error } = await tasks.health()
    assert.equal(ok, false)
    assert.match(String(error), expected)
    await end()
    await eventually(async () => (await tasks.health()).ok, HEALED_MS, 'it is healthy')
    await submit(2)
  }

  async function command(port: number, line: string): Promise<void> {
    assert.match(await say(port, line) ?? '', /^\+/, line)
  }

  test('is ok, and its probe leaves no visible data', async (t) => {
    const server = await serverFor(t)
    const { tasks } = tasksOn(t, clientOf(t, server.port))
    for (let n = 0; n < 3; n++)
      assert.deepEqual(await tasks.health(), { ok: true, running: 0, waiting: 0, pausedPools: [] })
    assert.deepEqual((await tasks.list()).items, [])
    const left = await new Promise<number>((resolve) => {
      void say(server.port, 'PTTL {longhaul}:engine:').then((reply) => {
        resolve(Number(reply?.slice(1)))
      })
    })
    assert.ok(left > 0, 'the key of the probe expires')
  })

  // Before Redis 7, scripts write without them.
  if (redisVersion() >= 7) test('is not ok without the replicas that a write needs', async (t) => {
    const { port } = await serverFor(t)
    await reports(t, port, /NOREPLICAS/, {
      fault: () => command(port, 'CONFIG SET min-replicas-to-write 1'),
      end: () => command(port, 'CONFIG SET min-replicas-to-write 0'),
    })
  })

  test('is not ok while the memory of Redis is full', async (t) => {
    const { port } = await serverFor(t)
    await reports(t, port, /OOM/, {
      fault: () => command(port, 'CONFIG SET maxmemory 1'), end: () => command(port, 'CONFIG SET maxmemory 0'),
    })
  })

  test('is not ok while Redis cannot save', async (t) => {
    const server = await serverFor(t)
    const { port } = server
    await command(port, 'CONFIG SET save "3600 100000"')
    await reports(t, port, /MISCONF/, {
      fault: async () => {
        rmSync(server.dir, { recursive: true })
        await command(port, 'BGSAVE')
        await eventually(
          async () => (await say(port, 'INFO persistence'))?.includes('rdb_last_bgsave_status:err') ?? false,
          HEALED_MS,
          'a save fails',
        )
      },
      end: () => command(port, 'CONFIG SET stop-writes-on-bgsave-error no'),
    })
  })

  // Before Redis 7, a server that loads so few bytes is silent until the end, as a frozen one.
  if (redisVersion() >= 7) test('is not ok while Redis loads the data of a primary', async (t) => {
    const [{ port }, primary] = await Promise.all([
      serverFor(t, ['--loading-process-events-interval-bytes', '1024']),
      serverFor(t),
    ])
    assert.match(await say(primary.port, 'EVAL "for n = 1, 20000 do redis.call(\'SET\', n, n) end" 0') ?? '', /^\$-1/)
    await reports(t, port, /LOADING|has not responded/, {
      fault: async () => {
        await command(port, 'CONFIG SET key-load-delay 1000')
        await command(port, `REPLICAOF 127.0.0.1 ${String(primary.port)}`)
        await eventually(async () => (await say(port, 'GET 1'))?.startsWith('-LOADING') ?? false, HEALED_MS, 'it loads')
      },
      end: () => eventually(async () => {
        await say(port, 'CONFIG SET key-load-delay 0')
        return await say(port, 'REPLICAOF NO ONE') === '+OK\r\n'
      }, HEALED_MS, 'it has loaded'),
    })
  })

  test('is not ok while a cluster has lost the node of the tasks', async (t) => {
    const servers = await clusterForFile()
    const client = new Cluster(
      servers.map(({ port }) => ({ host: '127.0.0.1', port })),
      { clusterRetryStrategy: () => 50 },
    )
    client.on('error', () => undefined)
    t.after(() => { client.disconnect() })
    const { tasks, submit } = tasksOn(t, client)
    await submit(1)
    assert.equal((await tasks.health()).ok, true)
    const reply = await say(servers[0]?.port ?? 0, 'GET {longhaul}:engine:') ?? ''
    const [, moved] = /:(\d+)\r\n$/.exec(reply) ?? []
    const holder = servers.find(({ port }) => String(port) === moved) ?? servers[0]
    await holder?.kill()
    await eventually(async () => !(await tasks.health()).ok, HEALED_MS, 'it is not ok')
    await assert.rejects(submit(2), { name: 'StoreUnavailableError' })
    await holder?.run()
    await eventually(async () => (await tasks.health()).ok, HEALED_MS, 'it is healthy')
  })
})
