// Two `createTasks` over one store share the bytes of an owner, with each other and with uploads.
import assert from 'node:assert/strict'
import { mkdtempSync, rmSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { after, describe, test } from 'node:test'
import { Redis } from 'ioredis'
import pg from 'pg'
import { FolderBlobs } from '../../../adapters/files/index.js'
import { memory } from '../../../adapters/memory/index.js'
import { postgres } from '../../../adapters/postgres/index.js'
import { RedisStore } from '../../../adapters/redis/index.js'
import type { Blobs } from '../../../src/stores/blobs.js'
import type { Store } from '../../../src/stores/store.js'
import { postgresForFile } from '../../servers/postgres-server.js'
import { redisUrl } from '../../servers/redis-server.js'
import { bodyOf, KINDS, piecesOf, setUp } from '../../unit/tasks/http/background-bodies.js'
import { deferred, ended, eventually } from '../../unit/tasks/kit.js'
import { setUp as setUpUploads } from '../../unit/uploads/kit.js'

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
    const store = new RedisStore({ client, namespace: `bodies-${String(process.pid)}` })
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

const REFUSED = '429 too_many_bytes'

for (const [name, open] of Object.entries(kinds)) {
  for (const kind of KINDS) {
    describe(`maxBytesPerOwner of ${kind} in the background on ${name}`, () => {
      test('two instances share the count, and what one frees the other may use', async (t) => {
        const storage = open()
        const [first, second] = [storage, open()].map(({ store, blobs }) => (
          setUp(t, { store, blobs, queue: memory().queue, maxBytesPerOwner: 1000 })
        )) as [ReturnType<typeof setUp>, ReturnType<typeof setUp>]
        const [ann, bob] = [{ user: `ann ${kind}` }, { user: `bob ${kind}` }]

        const [begun, last] = [deferred(), deferred()]
        const slow = async function* () {
          begun.resolve()
          yield* piecesOf(kind, 600, 100, last.promise)
        }
        const arriving = first.send(kind, slow(), { ...ann, headers: { 'content-length': '600' } })
        await begun.promise
        assert.equal(await second.sized(kind, 401, ann), REFUSED)
        assert.equal(await second.sized(kind, 1000, bob), '202')
        last.resolve()
        const { taskId, status } = await arriving
        assert.equal(status, 202)
        assert.equal(await second.sized(kind, 401, ann), REFUSED)

        const answers = await Promise.all(Array.from({ length: 12 }, (_, at) => (
          (at % 2 === 0 ? first : second).sized(kind, 100, ann)
        )))
        const expected = [...Array<string>(4).fill('202'), ...Array<string>(8).fill(REFUSED)]
        assert.deepEqual(answers.sort(), expected)

        const uploads = setUpUploads({ ...storage, maxBytesPerOwner: 1000 })
        const head = { 'x-user': ann.user, 'upload-complete': '?0', 'upload-length': '600' }
        assert.equal((await uploads.send('POST', '/files', head)).status, 429)
        first.go()
        assert.equal((await ended(first.tasks, taskId)).status, 'completed')
        await eventually(async () => (
          (await second.send(kind, bodyOf(kind, 600), ann)).status === 202
        ))
      })
    })
  }
}
