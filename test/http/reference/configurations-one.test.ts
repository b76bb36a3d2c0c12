// One process, wherever its users are; and what cannot work.
import assert from 'node:assert/strict'
import { chmod, mkdtemp, rm, stat } from 'node:fs/promises'
import { homedir, tmpdir } from 'node:os'
import { join } from 'node:path'
import { after, before, describe, test } from 'node:test'
import { ConfigError, readConfig } from '../../../examples/reference-server/config.js'
import { defaultFolder } from '../../../examples/reference-server/storage.js'
import { startPostgres, type PostgresServer } from '../../servers/postgres-server.js'
import { sqliteUrl } from '../../servers/sqlite.js'
import { worksWith } from './configurations.js'
import { startProcess, stopAfterwards } from '../kit/process.js'

stopAfterwards()

const file = await sqliteUrl()
/** Node 22 and 24 warn that their SQLite is new. */
const QUIET = { NODE_OPTIONS: '--disable-warning=ExperimentalWarning' }
let postgres: PostgresServer
before(async () => { postgres = await startPostgres() })
after(() => postgres.stop())

worksWith('memory', { env: () => ({}) })
worksWith('sqlite', { env: () => ({ DATABASE: file, ...QUIET }) })
worksWith('sqlite, workers apart', { env: () => ({ DATABASE: file, ...QUIET }), workerApart: true })
worksWith('postgres', { env: () => ({ DATABASE: postgres.url }) })
worksWith('postgres, workers apart', { env: () => ({ DATABASE: postgres.url }), workerApart: true })

describe('settings that cannot work stop the start', () => {
  const url = 'redis://127.0.0.1:1'
  test('with one message, and the process ends', async () => {
    const server = startProcess({ REDIS_URL: url, DATABASE: 'memory' })
    assert.deepEqual(await server.exited, { code: 1, signal: null })
    assert.match(server.err, /^DATABASE=memory keeps the users in one process.*leave DATABASE out.*\n$/)
  })

  for (const [what, env, message] of [
    [
      'users in one process beside tasks in several',
      { REDIS_URL: url, DATABASE: 'memory', WORKER: 'only' },
      /DATABASE=memory keeps the users in one process/,
    ],
    [
      'users on one machine beside tasks on several',
      { REDIS_URL: url, DATABASE: 'sqlite:./data.db' },
      /DATABASE=sqlite:.\/data.db keeps the users on one machine/,
    ],
    [
      'a database without a file',
      { DATABASE: 'sqlite::memory:' },
      /DATABASE must be memory, a file such as sqlite:.\/data.db, or/,
    ],
    [
      'a folder for uploads that cannot be written',
      { REDIS_URL: url, BLOBS_DIR: '/dev/null/x' },
      /BLOBS_DIR: \/dev\/null\/x cannot be used; .* may write to/,
    ],
    ['a folder for uploads that nobody would use', { BLOBS_DIR: '/tmp' }, /BLOBS_DIR needs REDIS_URL/],
    [
      'a worker apart without a shared database',
      { WORKER: 'off' },
      /WORKER=off needs REDIS_URL, or DATABASE=postgres:\/\/… or sqlite:…/,
    ],
  ] as const) {
    test(what, () => {
      assert.throws(
        () => readConfig(env),
        (error) => error instanceof ConfigError && message.test(error.message),
      )
    })
  }

  test('the users are in Redis unless PostgreSQL has them', () => {
    assert.equal(readConfig({ REDIS_URL: url }).database, url)
    assert.equal(readConfig({ REDIS_URL: url, DATABASE: 'postgres://a/b' }).database, 'postgres://a/b')
    assert.equal(readConfig({}).database, 'memory')
  })
})

describe('the folder of uploads and reports', () => {
  const url = 'redis://127.0.0.1:1'
  let base: string
  before(async () => { base = await mkdtemp(join(tmpdir(), 'longhaul-state-')) })
  after(() => rm(base, { recursive: true, force: true }))

  test('is one folder for the web and worker processes of one user, and only this user can read it', async () => {
    const env = { REDIS_URL: url, XDG_STATE_HOME: join(base, 'state') }
    const processes = ['off', 'only'].map((WORKER) => startProcess({ ...env, WORKER }))
    const folders = await Promise.all(
      processes.map(async (each) => (await each.said(/reports are in (\S+);/))[1] ?? ''),
    )
    assert.equal(folders[0], folders[1])
    assert.equal(folders[0], readConfig(env).blobsFolder)
    assert.ok(folders[0]?.startsWith(join(base, 'state', 'longhaul', 'blobs-')))
    assert.equal((await stat(folders[0] ?? '')).mode & 0o777, 0o700)
    for (const { child } of processes) child.kill('SIGKILL')
    await Promise.all(processes.map(({ exited }) => exited))
  })

  test('is below the home directory, and differs for each Redis', () => {
    const state = join(homedir(), '.local', 'state', 'longhaul', 'blobs-')
    for (const XDG_STATE_HOME of [undefined, '', 'relative'])
      assert.ok(defaultFolder(url, { XDG_STATE_HOME }).startsWith(state))
    assert.notEqual(defaultFolder(url, {}), defaultFolder(`${url}/2`, {}))
  })

  test('stops the start with one message if other users may write to it', async () => {
    const open = await mkdtemp(join(base, 'open-'))
    await chmod(open, 0o777)
    const server = startProcess({ REDIS_URL: url, BLOBS_DIR: open })
    assert.deepEqual(await server.exited, { code: 1, signal: null })
    assert.match(server.err, /^BLOBS_DIR: \S+ cannot be used.*all users may write to.*chmod go-w.*\n$/)
  })
})
