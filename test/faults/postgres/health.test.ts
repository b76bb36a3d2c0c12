// A PostgreSQL that responds, but takes no task.
import assert from 'node:assert/strict'
import { rmSync, writeFileSync } from 'node:fs'
import { join } from 'node:path'
import { describe, test, type TestContext } from 'node:test'
import { createTasks, defineTask, type Tasks } from 'longhaul'
import { postgres } from 'longhaul/postgres'
import { isStoreUnavailable } from 'longhaul/stores'
import pg from 'pg'
import { eventually } from '../../kit/wait.js'
import { postgresForFile } from '../../servers/postgres-server.js'

const SPACE = 24 << 20
const server = await postgresForFile({ tablespaceBytes: SPACE })
const work = defineTask({ name: 'work', run: async () => undefined })

function tasksOn(t: TestContext, connectionString: string): Tasks<readonly [typeof work]> {
  const pool = new pg.Pool({ connectionString })
  pool.on('error', () => undefined)
  const parts = postgres({ pool })
  const tasks = createTasks({ ...parts, definitions: [work], worker: false })
  t.after(async () => {
    await tasks.close({ drainMs: 0 })
    await Promise.all([parts.store.close(), parts.blobs.close()])
    await pool.end()
  })
  return tasks
}

describe('tasks.health on PostgreSQL', () => {
  test('is ok, and its probe creates no visible task', async (t) => {
    const tasks = tasksOn(t, server.url)
    for (let n = 0; n < 3; n++)
      assert.deepEqual(await tasks.health(), { ok: true, pausedPools: [], running: 0, waiting: 0 })
    assert.deepEqual((await tasks.list()).items, [])
    assert.deepEqual(
      await tasks.pools(), [{ pool: 'default', isPaused: false, running: 0, waiting: 0, delayed: 0 }],
    )
  })

  test('is not ok on a read-only replica, and is ok once the replica is the primary', async (t) => {
    const primary = await postgresForFile()
    const replica = await postgresForFile({ replicaOf: primary })
    await primary.waitForReplica()
    assert.equal((await tasksOn(t, primary.url).health()).ok, true)
    const tasks = tasksOn(t, replica.url)
    const { ok, error } = await tasks.health()
    assert.equal(ok, false)
    assert.ok(isStoreUnavailable(error))
    assert.equal((error.cause as { code?: string }).code, '25006')
    await replica.promote()
    assert.equal((await tasks.health()).ok, true)
  })

  test('is not ok while the disk is full, and is ok when there is space', async (t) => {
    const tasks = tasksOn(t, server.url)
    assert.equal((await tasks.health()).ok, true)
    const filler = join(server.tablespaceFolder, 'filler')
    try {
      writeFileSync(filler, Buffer.alloc(SPACE))
    } catch (error) {
      assert.equal((error as NodeJS.ErrnoException).code, 'ENOSPC')
    }
    let health = await tasks.health()
    await eventually(async () => !(health = await tasks.health()).ok, 10_000, 'the disk is full')
    const { error } = health
    assert.ok(isStoreUnavailable(error) && error.reason === 'full', String(error))
    rmSync(filler)
    assert.equal((await tasks.health()).ok, true)
  })
})
