import assert from 'node:assert/strict'
import { describe, test } from 'node:test'
import { postgresForFile } from '../../servers/postgres-server.js'
import { SmallProcess } from '../kit/small-process.js'

const MIB = 1 << 20
/** `npm run test:large` writes and reads 10 GiB. */
const SIZE = process.env['LONGHAUL_LARGE'] === undefined ? 192 * MIB : 10 * 1024 * MIB

describe('a large blob in PostgreSQL, in a process with a heap of 64 MiB', async () => {
  const server = await postgresForFile()

  test('is written and read back whole with little memory', async () => {
    const env = { LONGHAUL_TEST_DATABASE: server.url, LONGHAUL_TEST_SIZE: String(SIZE) }
    const child = await SmallProcess.start('postgres-blobs-process.ts', { env })
    assert.deepEqual(await child.tell('write and read'), { size: SIZE, isSame: true })
    const { maxRss } = await child.memory()
    await child.stop()
    assert.ok(maxRss < 300 * MIB, `${Math.round(maxRss / MIB)} MiB`)
  })
})
