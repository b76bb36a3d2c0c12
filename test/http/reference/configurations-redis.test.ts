// Several processes behind one Redis.
import { after, before } from 'node:test'
import { startPostgres, type PostgresServer } from '../../servers/postgres-server.js'
import { RedisServer } from '../../servers/redis-server.js'
import { worksWith } from './configurations.js'
import { stopAfterwards } from '../kit/process.js'

stopAfterwards()

let redis: RedisServer
let postgres: PostgresServer
before(async () => { [redis, postgres] = await Promise.all([RedisServer.start(), startPostgres()]) })
after(async () => { await Promise.all([redis.stop(), postgres.stop()]) })

worksWith('redis', { env: () => ({ REDIS_URL: `${redis.url}/1` }) })
worksWith('redis, workers apart', { env: () => ({ REDIS_URL: `${redis.url}/2` }), workerApart: true })
worksWith('redis and postgres, workers apart', {
  env: () => ({ REDIS_URL: `${redis.url}/3`, DATABASE: postgres.url }),
  workerApart: true,
})
