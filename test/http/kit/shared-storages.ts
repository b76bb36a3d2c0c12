import { mkdtempSync, rmSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { after } from 'node:test'
import type { Blobs } from '../../../src/stores/blobs.js'
import type { Store } from '../../../src/stores/store.js'
import { openDatabase } from '../../servers/open-database.js'
import { postgresForFile } from '../../servers/postgres-server.js'
import { redisUrl } from '../../servers/redis-server.js'

/** A store and blobs that several processes share. */
export interface SharedStorage { readonly store: Store, readonly blobs: Blobs }

/**
 * Returns functions that open storages on one Redis and on one PostgreSQL, by name. All are closed
 * after the tests of the file.
 */
export async function sharedStorages(): Promise<Readonly<Record<string, () => SharedStorage>>> {
  const closing: (() => Promise<unknown>)[] = []
  const folder = mkdtempSync(join(tmpdir(), 'longhaul-owner-bytes-'))
  after(async () => {
    for (const close of closing.reverse()) await close()
    rmSync(folder, { recursive: true, force: true })
  })
  const openIt = (url: string) => (): SharedStorage => {
    const { parts, close } = openDatabase(url, { name: `bytes_${String(process.pid)}`, folder })
    closing.push(close)
    return { store: parts.store, blobs: parts.blobs }
  }
  return { Redis: openIt(await redisUrl()), PostgreSQL: openIt((await postgresForFile()).url) }
}
