import assert from 'node:assert/strict'
import * as runner from 'node:test'
import { after, test } from 'node:test'
import { Redis } from 'ioredis'
import { Redis as Redis5 } from 'ioredis5'
import { storeConformance } from 'longhaul/conformance'
import { type RedisClient } from 'longhaul/redis'
import { RedisStore } from '../../adapters/redis/store.js'
import { say } from '../servers/redis-server.js'
import { sentinelForFile } from '../servers/redis-sentinel.js'
import { eventually } from '../kit/wait.js'

const { master, replica, options } = await sentinelForFile()
const one: RedisClient = new Redis(options)
const other: RedisClient = new Redis5(options)
for (const client of [one, other]) client.on('error', () => undefined)
after(() => { for (const client of [one, other]) client.disconnect() })

storeConformance(
  runner,
  async () => ({ store: new RedisStore({ client: one }), second: new RedisStore({ client: other }) }),
  {
    title: 'RedisStore behind sentinels, seen by ioredis 6 and 5',
  },
)

test('RedisStore serves again after a failover, and its watches are notified of writes', async (t) => {
  const store = new RedisStore({ client: one, timeoutMs: 500 })
  const second = new RedisStore({ client: other, timeoutMs: 500 })
  t.after(() => Promise.all([store.close(), second.close()]))
  let notices = 0
  await store.watch('survivor', () => { notices++ })
  const later = { ttlMs: 600_000 }
  assert.equal((await store.create('survivor', 'before', later)).created, true)
  await eventually(() => notices > 0, 30_000, 'the watch tells of the create')
  await eventually(
    async () => (await say(replica.port, 'EXISTS longhaul:e:survivor')) === ':1\r\n',
    5000,
    'the replica has it',
  )
  notices = 0

  await master.kill()
  await assert.rejects(second.create('while-down', 'x', later), { name: 'StoreUnavailableError' })
  await eventually(() => notices > 0, 20_000, 'a notice comes after the reconnect')
  await eventually(
    () =>
      second.get('survivor').then(
        (entry) => entry?.value === 'before',
        () => false,
      ),
    5000,
    'the second store reads again',
  )

  const before = notices
  const entry = await second.get('survivor')
  assert.equal((await second.replace('survivor', 'after', entry?.revision ?? '', later)).replaced, true)
  await eventually(() => notices > before, 30_000, 'the watch tells of a write to the new master')
  assert.equal((await store.get('survivor'))?.value, 'after')
})
