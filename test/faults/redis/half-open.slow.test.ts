// Connections to Redis that go silent for ever while new ones work: a load balancer or NAT has lost its state.
import assert from 'node:assert/strict'
import { describe, test, type TestContext } from 'node:test'
import { Cluster, Redis } from 'ioredis'
import { createTasks, defineTask, jsonSchema } from 'longhaul'
import { redis as parts } from 'longhaul/redis'
import { RedisStore } from '../../../adapters/redis/store.js'
import { Client } from '../../http/kit/reference.js'
import { startProcess, stopAfterwards } from '../../http/kit/process.js'
import { clusterForFile } from '../../servers/redis-cluster.js'
import { redisForFile, type RedisServer } from '../../servers/redis-server.js'
import { TcpProxy } from '../../servers/tcp-proxy.js'
import { eventually } from '../../kit/wait.js'

stopAfterwards()
const redis = await redisForFile()

/** Maximum time until all works again, in milliseconds. A silent connection that is not replaced stays silent. */
const HEALED_MS = 30_000

async function proxyTo(t: TestContext, { port }: Pick<RedisServer, 'port'> = redis): Promise<TcpProxy> {
  const proxy = await TcpProxy.to(port)
  t.after(() => { proxy.close() })
  return proxy
}

function clientOf(t: TestContext, proxy: TcpProxy): Redis {
  const client = new Redis(proxy.port, '127.0.0.1', { maxRetriesPerRequest: null, retryStrategy: () => 50 })
  client.on('error', () => undefined)
  t.after(() => { client.disconnect() })
  return client
}

describe('a half-open connection to Redis', () => {
  test('is replaced in the store', async (t) => {
    const proxy = await proxyTo(t)
    const store = new RedisStore({ client: clientOf(t, proxy) })
    t.after(() => store.close())
    await store.create('store', 'a', { ttlMs: 60_000 })
    proxy.forget()
    await assert.rejects(async () => store.get('store'), { reason: 'unavailable' })
    await eventually(
      async () => (await store.get('store').catch(() => undefined))?.value === 'a',
      HEALED_MS,
      'the store answers again',
    )
  })

  test('is kept if Redis itself has stopped responding', async (t) => {
    const proxy = await proxyTo(t)
    const client = clientOf(t, proxy)
    const store = new RedisStore({ client, timeoutMs: 100 })
    t.after(() => store.close())
    await store.create('stopped', 'a', { ttlMs: 60_000 })
    const { stream } = client
    const { opened } = proxy
    redis.freeze()
    for (let tries = 0; tries < 5; tries++)
      await assert.rejects(async () => store.get('stopped'), { reason: 'unavailable' })
    redis.thaw()
    await eventually(
      async () => (await store.get('stopped').catch(() => undefined))?.value === 'a',
      HEALED_MS,
      'the store answers again',
    )
    assert.equal(client.stream, stream)
    assert.ok(proxy.opened > opened, 'a new connection was tried')
  })

  test('is replaced for the change notices', async (t) => {
    const proxy = await proxyTo(t)
    const near = new RedisStore({ client: clientOf(t, proxy) })
    const direct = new Redis(redis.url)
    const far = new RedisStore({ client: direct })
    t.after(async () => {
      await Promise.all([near.close(), far.close()])
      direct.disconnect()
    })
    let notices = 0
    await near.watch('noticed', () => { notices++ })
    const made = await far.create('noticed', 'a', { ttlMs: 60_000 })
    assert.ok(made.created)
    await eventually(() => notices > 0, 30_000, 'a notice comes')
    proxy.forget()
    notices = 0
    await eventually(() => notices > 0, HEALED_MS, 'a notice comes of the new connection')
    notices = 0
    assert.ok((await far.replace('noticed', 'b', made.revision, {})).replaced)
    await eventually(() => notices > 0, 30_000, 'a notice comes of the next write')
    await near.watch('another', () => undefined)
  })

  test('is replaced in a web process and in its worker', async (t) => {
    const proxy = await proxyTo(t)
    const open = () => {
      const { engine, store } = parts({
        client: clientOf(t, proxy), namespace: 'half-open', leaseMs: 4000,
      })
      t.after(() => store.close())
      return { engine, store }
    }
    const ran: number[] = []
    const work = defineTask({
      name: 'work',
      input: jsonSchema<number>({ type: 'integer' }),
      run: (nth) => {
        ran.push(nth)
      },
    })
    const web = createTasks({ ...open(), definitions: [work], worker: false })
    const worker = createTasks({ ...open(), definitions: [work], concurrency: 2 })
    t.after(() => Promise.all([web.close(), worker.close({ drainMs: 0 })]))
    await web.submit(work, 0)
    await eventually(() => ran.includes(0), 10_000, 'the worker works')
    proxy.forget()
    let nth = 0
    await eventually(async () => (
      await web.submit(work, ++nth).then(() => true, () => false)
    ), HEALED_MS, 'the web process takes tasks again')
    await eventually(() => ran.includes(nth), HEALED_MS, 'the worker runs what was taken')
  })
})

test('a cluster replaces the half-open connection of each silent node', async (t) => {
  const servers = await clusterForFile()
  const proxies = await Promise.all(servers.map((server) => proxyTo(t, server)))
  const natMap = Object.fromEntries(
    servers.map(({ port }, at) => [`127.0.0.1:${String(port)}`, { host: '127.0.0.1', port: proxies[at]?.port ?? 0 }]),
  )
  const client = new Cluster([{ host: '127.0.0.1', port: proxies[0]?.port ?? 0 }], {
    natMap,
    clusterRetryStrategy: () => 50,
  })
  client.on('error', () => undefined)
  t.after(() => { client.disconnect() })
  const store = new RedisStore({ client })
  t.after(() => store.close())
  const keys = Array.from({ length: 12 }, (_, n) => `cluster-${String(n)}`)
  for (const key of keys) await store.create(key, 'a', { ttlMs: 60_000 })
  for (const proxy of proxies) proxy.forget()
  await eventually(async () => {
    for (const key of keys) if ((await store.get(key).catch(() => undefined))?.value !== 'a') return false
    return true
  }, HEALED_MS, 'all nodes answer again')
})

test('the users store of the reference server replaces the half-open connection of its own client', async (t) => {
  const proxy = await proxyTo(t)
  const server = startProcess({
    REDIS_URL: `redis://127.0.0.1:${String(proxy.port)}/3`,
    AUTH_TOKENS: 'writer-1=will:writer',
    RATE_LIMIT: '1000000',
  })
  const client = new Client(await server.url())
  assert.equal((await client.ask('GET', '/api/users')).status, 200)
  proxy.forget()
  await eventually(async () => (await client.ask('GET', '/api/users')).status === 200, HEALED_MS, 'users are read')
  assert.equal((await client.ask('PATCH', '/api/users/1', { body: { name: 'Later' } })).status, 200)
})

test('two web processes replace half-open connections within seconds, and their accepted tasks continue', async (t) => {
  const proxy = await proxyTo(t)
  const env = {
    REDIS_URL: `redis://127.0.0.1:${String(proxy.port)}/2`,
    AUTH_TOKENS: 'writer-1=will:writer',
    RATE_LIMIT: '1000000',
  }
  const processes = [startProcess(env), startProcess(env)]
  const clients = (await Promise.all(processes.map((each) => each.url()))).map((url) => new Client(url))
  const [one, other] = clients as [Client, Client]
  const paths = await Promise.all(clients.map(async (client) => {
    const { status, headers } = await client.submit('wait', { ms: 2000 })
    assert.equal(status, 202)
    return headers.get('location') ?? ''
  }))
  proxy.forget()
  await Promise.all(clients.map((client) => eventually(
    async () => (await client.submit('wait', { ms: 0 })).status === 202, HEALED_MS, 'the process takes work again',
  )))
  await Promise.all(
    paths.map((path, at) =>
      eventually(
        async () => (await (at === 0 ? other : one).ask('GET', path)).json?.status === 'completed',
        HEALED_MS,
        'what was accepted ends',
      ),
    ),
  )
  for (const { child } of processes) child.kill('SIGTERM')
  for (const each of processes) assert.deepEqual(await each.exited, { code: 0, signal: null }, each.err)
})
