import assert from 'node:assert/strict'
import { subscribe, unsubscribe } from 'node:diagnostics_channel'
import { after, test } from 'node:test'
import { Redis } from 'ioredis'
import type { StoreEvent } from 'longhaul/stores'
import { RedisStore } from '../../adapters/redis/store.js'
import { redisForFile } from '../servers/redis-server.js'

const redis = await redisForFile()
const client = new Redis(redis.url)
after(() => { client.disconnect() })

test('longhaul:store publishes the duration and the outcome of each call', async (t) => {
  const heard: StoreEvent[] = []
  const listener = (event: unknown) => { heard.push(event as StoreEvent) }
  const store = new RedisStore({ client, namespace: 'events', timeoutMs: 200 })
  t.after(() => store.close())
  await store.get('before')
  subscribe('longhaul:store', listener)
  t.after(() => { unsubscribe('longhaul:store', listener) })
  const options = { ttlMs: 60_000 }
  const made = await store.create('key', 'a', options)
  assert.ok(made.created)
  await store.replace('key', 'b', made.revision, options)
  await store.get('key')
  await store.increment('count', 1, options)
  ;(await store.watch('key', () => undefined))()
  await store.delete('key')
  await assert.rejects(store.create('key', 'c', { ttlMs: NaN }), TypeError)
  redis.freeze()
  await assert.rejects(store.get('key'), { name: 'StoreUnavailableError' })
  redis.thaw()
  assert.deepEqual(heard.map(({ verb, outcome }) => `${verb} ${outcome}`), [
    'create ok', 'replace ok', 'get ok', 'increment ok', 'watch ok', 'delete ok', 'create misuse', 'get unavailable',
  ])
  for (const { ms } of heard) assert.ok(ms >= 0 && ms < 10_000, String(ms))
  assert.ok((heard.at(-1)?.ms ?? 0) > 150, 'the caller waited for its deadline')
})

test('misuse does not open the circuit breaker, and the next call is sent', async (t) => {
  const store = new RedisStore({ client, namespace: 'misuse', timeoutMs: 50 })
  t.after(() => store.close())
  for (let n = 0; n < 3; n++) await assert.rejects(store.create('key', '', { ttlMs: NaN }), TypeError)
  await new Promise((resolve) => { setTimeout(resolve, 150) })
  const both = await Promise.all([store.get('key'), store.get('key')])
  assert.deepEqual(both, [undefined, undefined])
})
