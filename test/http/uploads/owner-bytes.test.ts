// Two instances over one store share the bytes of an owner.
import assert from 'node:assert/strict'
import { mkdtempSync, rmSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { after, describe, test } from 'node:test'
import { Redis } from 'ioredis'
import pg from 'pg'
import { FolderBlobs } from '../../../adapters/files/index.js'
import { postgres } from '../../../adapters/postgres/index.js'
import { RedisStore } from '../../../adapters/redis/index.js'
import type { Blobs } from '../../../src/stores/blobs.js'
import type { Store } from '../../../src/stores/store.js'
import { postgresForFile } from '../../servers/postgres-server.js'
import { redisUrl } from '../../servers/redis-server.js'
import { setUp } from '../../unit/uploads/kit.js'

const closing: (() => Promise<unknown>)[] = []
const folder = mkdtempSync(join(tmpdir(), 'longhaul-owner-bytes-'))
after(async () => {
  for (const close of closing.reverse()) await close()
  rmSync(folder, { recursive: true, force: true })
})
const url = await redisUrl()
const server = await postgresForFile()

interface Storage { readonly store: Store, readonly blobs: Blobs }

const kinds: Readonly<Record<string, () => Storage>> = {
  Redis() {
    const client = new Redis(url)
    const store = new RedisStore({ client, namespace: `bytes-${String(process.pid)}` })
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

for (const [name, open] of Object.entries(kinds)) {
  describe(`maxBytesPerOwner on ${name}`, () => {
    test('two instances share the count, and what one frees the other may use', async () => {
      const [first, second] = [open(), open()].map((storage) => (
        setUp({ ...storage, maxBytesPerOwner: 1000 })
      )) as [ReturnType<typeof setUp>, ReturnType<typeof setUp>]
      const head = { 'x-user': 'ann', 'upload-complete': '?0', 'upload-length': '100' }
      const answers = await Promise.all(Array.from({ length: 20 }, (_, at) => (
        (at % 2 === 0 ? first : second).send('POST', '/files', head)
      )))
      const made = answers.filter(({ status }) => status === 201)
      assert.equal(made.length, 10)
      assert.equal(answers.filter(({ status }) => status === 429).length, 10)
      assert.equal((await second.send('POST', '/files', { ...head, 'x-user': 'bob' })).status, 201)
      const path = String(made[0]?.headers['location'])
      assert.equal((await first.send('DELETE', path, { 'x-user': 'ann' })).status, 204)
      assert.equal((await second.send('POST', '/files', head)).status, 201)
    })
  })
}
