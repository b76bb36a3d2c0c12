import { mkdtempSync, rmSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { after } from 'node:test'
import { Redis } from 'ioredis'
import { FolderBlobs } from '../../../adapters/files/index.js'
import { postgres } from '../../../adapters/postgres/index.js'
import { RedisStore } from '../../../adapters/redis/store.js'
import type { Blobs } from '../../../src/stores/blobs.js'
import type { Store } from '../../../src/stores/store.js'
import pg from 'pg'
import { postgresForFile } from '../../servers/postgres-server.js'
import { redisUrl } from '../../servers/redis-server.js'

/** A store and blobs that several processes share. */
export interface SharedStorage { readonly store: Store, readonly blobs: Blobs }

/**
 * Returns functions that open storages on one Redis and on one PostgreSQL, by name. All are closed
 * after the tests of the file.
 *
 * @param namespace - of the keys in Redis
 */
export async function sharedStorages(namespace: string): Promise<Readonly<Record<string, () => SharedStorage>>> {
  const closing: (() => Promise<unknown>)[] = []
  const folder = mkdtempSync(join(tmpdir(), 'longhaul-owner-bytes-'))
  after(async () => {
    for (const close of closing.reverse()) await close()
    rmSync(folder, { recursive: true, force: true })
  })
  const url = await redisUrl()
  const server = await postgresForFile()
  return {
    Redis() {
      const client = new Redis(url)
      const store = new RedisStore({ client, namespace: `${namespace}-${String(process.pid)}` })
      const blobs = new FolderBlobs(folder, { shared: true })
      closing.push(async () => client.quit(), () => store.close(), () => blobs.close())
      return { store, blobs }
    },
    PostgreSQL() {
      const pool = new pg.Pool({ connectionString: server.url })
      const { store, blobs } = postgres({ pool })
      closing.push(() => pool.end(), () => store.close(), () => blobs.close())
      return { store, blobs }
    },
  }
}
