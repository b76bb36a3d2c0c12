// A PostgreSQL whose disk is full: its tables lie on a file system of 24 MiB.
import assert from 'node:assert/strict'
import { rmSync, writeFileSync } from 'node:fs'
import { join } from 'node:path'
import { after, describe, test } from 'node:test'
import { isStoreUnavailable } from 'longhaul/stores'
import { postgres } from 'longhaul/postgres'
import pg from 'pg'
import { postgresForFile } from '../../servers/postgres-server.js'
import { Site } from './site.js'
import { eventually } from '../../kit/wait.js'

const MIB = 1 << 20
const database = await postgresForFile({ tablespaceBytes: 24 * MIB })

describe('a server whose PostgreSQL has no space', () => {
  test('reports it, shows the stored tasks, and serves when there is space', async () => {
    const site = await Site.start(database)
    await site.works()
    const path = await site.begun(0)
    await site.survives(path)
    fill()
    await eventually(async () => {
      const { status, json } = await site.client.ask('POST', '/tasks', { body: { ms: 0, text: 'x'.repeat(8000) } })
      return status === 503 && json.code === 'store_full'
    }, 20_000, 'the server says that its store is full')
    await eventually(async () => {
      const { status, text } = await site.client.ask('PUT', '/blobs/large', { body: 'x'.repeat(2 * MIB) })
      return status === 503 && text.includes('store_full')
    }, 20_000, 'the server says that its blobs are full')
    await site.everyRequest()
    assert.equal((await site.client.ask('GET', path)).json.status, 'completed')
    assert.equal((await site.client.ask('GET', '/blobs/key')).status, 200)
    free()
    await site.works()
    await site.lostNothing()
  })

  test('rejects a new blob as full, keeps the old blob, and makes space with a sweep', async () => {
    const pool = new pg.Pool({ connectionString: database.url })
    const { blobs } = postgres({ pool, schema: 'small' })
    after(() => blobs.close().then(() => pool.end()))
    const later = { ttlMs: 600_000 }
    await blobs.put('key', bytes(1), later)
    for (let round = 0; round < 3; round++) {
      fill(2 * MIB)
      await assert.rejects(
        blobs.put('key', bytes(24), later),
        (error) => isStoreUnavailable(error) && error.reason === 'full',
      )
      assert.equal((await blobs.stat('key'))?.size, MIB)
      // The failed put is marked in the background. Autovacuum would follow within a minute.
      await eventually(async () => {
        await blobs.sweep()
        const [row] = await database.query('select count(*)::int as count from small.blob_chunks')
        return row?.['count'] === 4
      }, 10_000, 'the chunks of the failed put are deleted')
      // A vacuum needs a few pages of its own.
      free()
      await database.query('vacuum small.blob_chunks')
    }
    assert.equal((await blobs.put('other', bytes(4), later)).size, 4 * MIB)
  })
})

/** Takes some space, or all that is left. */
function fill(size = 24 * MIB): void {
  try {
    writeFileSync(join(database.tablespaceFolder, 'filler'), Buffer.alloc(size))
  } catch (error) {
    assert.equal((error as NodeJS.ErrnoException).code, 'ENOSPC')
  }
}

function free(): void {
  rmSync(join(database.tablespaceFolder, 'filler'))
}

async function* bytes(mebibytes: number): AsyncGenerator<Uint8Array> {
  for (let sent = 0; sent < mebibytes; sent++) yield Buffer.alloc(MIB, sent)
}
