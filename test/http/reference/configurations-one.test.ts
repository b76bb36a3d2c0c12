// One process, wherever its users are; and what cannot work.
import assert from 'node:assert/strict'
import { after, before, describe, test } from 'node:test'
import { ConfigError, readConfig } from '../../../examples/reference-server/config.js'
import { startPostgres, type PostgresServer } from '../../servers/postgres-server.js'
import { worksWith } from './configurations.js'
import { startProcess, stopAfterwards } from '../kit/process.js'

stopAfterwards()

let postgres: PostgresServer
before(async () => { postgres = await startPostgres() })
after(() => postgres.stop())

worksWith('memory', { env: () => ({}) })
worksWith('pglite', { env: () => ({ DATABASE: 'pglite' }) })
worksWith('postgres', { env: () => ({ DATABASE: postgres.url }) })
worksWith('postgres, workers apart', { env: () => ({ DATABASE: postgres.url }), workerApart: true })

describe('settings that cannot work stop the start', () => {
  const url = 'redis://127.0.0.1:1'
  test('prints one message, and the process ends', async () => {
    const server = startProcess({ REDIS_URL: url, DATABASE: 'memory' })
    assert.deepEqual(await server.exited, { code: 1, signal: null })
    assert.match(server.err, /^DATABASE=memory keeps the users in one process.*leave DATABASE out.*\n$/)
  })

  for (const [what, env, message] of [
    ['users in one process beside tasks in several', { REDIS_URL: url, DATABASE: 'pglite', WORKER: 'only' }, /DATABASE=pglite keeps the users in one process/],
    ['a folder for uploads that cannot be written', { REDIS_URL: url, BLOBS_DIR: '/dev/null/x' }, /BLOBS_DIR: \/dev\/null\/x cannot be written to/],
    ['a folder for uploads that nobody would use', { BLOBS_DIR: '/tmp' }, /BLOBS_DIR needs REDIS_URL/],
    ['a worker apart without a shared database', { WORKER: 'off' }, /WORKER=off needs REDIS_URL or DATABASE=postgres/],
  ] as const) {
    test(what, () => {
      assert.throws(() => readConfig(env), (error) => error instanceof ConfigError && message.test(error.message))
    })
  }

  test('with Redis, users are there unless PostgreSQL has them', () => {
    assert.equal(readConfig({ REDIS_URL: url }).database, url)
    assert.equal(readConfig({ REDIS_URL: url, DATABASE: 'postgres://a/b' }).database, 'postgres://a/b')
    assert.equal(readConfig({}).database, 'memory')
  })
})
