import assert from 'node:assert/strict'
import { mkdtemp, readdir, rm } from 'node:fs/promises'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { describe, test, type TestContext } from 'node:test'
import { toFetch } from '../../../../adapters/fetch/index.js'
import { FolderBlobs } from '../../../../adapters/files/index.js'
import { memory } from '../../../../adapters/memory/index.js'
import { bulkCreate } from '../../../../src/bulk/create.js'
import { ndjsonUpload } from '../../../../src/ndjson/upload.js'
import { router } from '../../../../src/resources/router.js'
import { createTasks } from '../../../../src/tasks/tasks.js'
import { taskEndpoints } from '../../../../src/tasks/http/endpoints.js'
import { draft, people, Users, type Draft, type User } from '../../kit/bulk.js'
import { setUp as uploads } from '../../kit/uploads.js'

const FULL = { status: 503, code: 'store_full', retryAfter: '30' }

/** Blobs in a folder of their own, with room for 100,000 bytes. */
async function folder(t: TestContext) {
  const path = await mkdtemp(join(tmpdir(), 'longhaul-full-'))
  const blobs = new FolderBlobs(path, { maxBytes: 100_000 })
  t.after(async () => {
    await blobs.close()
    await rm(path, { recursive: true, force: true })
  })
  return { path, blobs }
}

/** A client of a server that takes bulk bodies and NDJSON in the background. */
async function server(t: TestContext) {
  const { path, blobs } = await folder(t)
  const users = new Users()
  const bulk = bulkCreate<User, Draft>({
    repository: users, schema: draft, key: ({ email }: Draft) => email, background: { name: 'bulk', blobs },
  })
  const ndjson = ndjsonUpload({ write: () => undefined, background: { name: 'ndjson', blobs } })
  const { store, engine } = memory()
  const tasks = createTasks({ store, engine, definitions: [bulk.task, ndjson.task], onError: () => undefined })
  t.after(() => tasks.close())
  const endpoints = taskEndpoints(tasks, { statusPath: '/tasks/{id}', anonymous: true, owner: () => undefined })
  const call = toFetch(
    router({ 'POST /bulk': bulk.handler(endpoints), 'POST /ndjson': ndjson.handler(endpoints) }),
    { onError: () => undefined },
  )
  const send = async (to: string, type: string, body: string) => {
    const headers = { 'content-type': type, 'prefer': 'respond-async' }
    const response = await call(new Request(`http://test${to}`, { method: 'POST', body, headers }))
    const { code } = await response.json() as { code?: string }
    return { status: response.status, code, retryAfter: response.headers.get('retry-after') }
  }
  return { path, blobs, send, users }
}

const line = (bytes: number): string => `${JSON.stringify({ text: 'x'.repeat(bytes) })}\n`

describe('a folder of blobs that has reached maxBytes', () => {
  test('gives an NDJSON upload 503 store_full, and keeps nothing of it', async (t) => {
    const { path, send } = await server(t)
    const lines = line(10_000)
    assert.deepEqual(await send('/ndjson', 'application/x-ndjson', lines.repeat(20)), FULL)
    assert.deepEqual(await readdir(path), [])
    assert.equal((await send('/ndjson', 'application/x-ndjson', lines.repeat(5))).status, 202)
  })

  test('gives a bulk body 503 store_full, and keeps nothing of it', async (t) => {
    const { path, send, users } = await server(t)
    assert.deepEqual(await send('/bulk', 'application/json', JSON.stringify(people(5000))), FULL)
    assert.deepEqual([await readdir(path), users.users.size], [[], 0])
    assert.equal((await send('/bulk', 'application/json', JSON.stringify(people(10)))).status, 202)
  })

  test('gives a part of a resumable upload 503 store_full, and takes it once there is space', async (t) => {
    const { blobs } = await folder(t)
    await blobs.put('other', (async function* () { yield Buffer.alloc(60_000) })(), { ttlMs: 60_000 })
    const { create, patch, head } = uploads({ blobs })
    const upload = await create()
    const body = Buffer.alloc(60_000, 7)
    const refused = await patch(upload, 0, body)
    const { code } = JSON.parse(await refused.text()) as { code?: string }
    assert.deepEqual({ status: refused.status, code, retryAfter: refused.headers['retry-after'] }, FULL)
    assert.equal((await head(upload)).headers['upload-offset'], '0')
    await blobs.delete('other')
    assert.equal((await patch(upload, 0, body, true)).status, 200)
  })
})
