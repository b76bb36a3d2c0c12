// One owner leaves very much behind. It costs the others nothing.
import assert from 'node:assert/strict'
import { mkdtempSync, rmSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { after, describe, test } from 'node:test'
import { Redis } from 'ioredis'
import pg from 'pg'
import { FolderBlobs } from '../../../adapters/files/index.js'
import { memory, MemoryBlobs } from '../../../adapters/memory/index.js'
import { MemoryStore } from '../../../adapters/memory/store.js'
import { postgres } from '../../../adapters/postgres/index.js'
import { redis } from '../../../adapters/redis/index.js'
import type { Handler, HttpRequest } from '../../../src/http/exchange.js'
import { json } from '../../../src/http/respond.js'
import { ndjsonUpload } from '../../../src/ndjson/index.js'
import type { TaskEngine } from '../../../src/engine/engine.js'
import type { Store } from '../../../src/stores/store.js'
import { defineTask } from '../../../src/tasks/definition/define.js'
import { taskEndpoints } from '../../../src/tasks/http/endpoints.js'
import { createTasks } from '../../../src/tasks/tasks.js'
import { inject } from '../../../src/testing/index.js'
import { resumableUpload } from '../../../src/uploads/index.js'
import { postgresForFile } from '../../servers/postgres-server.js'
import { redisUrl } from '../../servers/redis-server.js'
import { storeLike } from '../../conformance/broken-stores.js'
import { eventually } from '../../kit/wait.js'

/** Run before the connections end. */
const closing: (() => Promise<void>)[] = []
after(async () => { await Promise.all(closing.map((close) => close())) })

interface Flood {
  /** Number of tasks, of keyed uploads, of uploads, and the share of one owner. */
  readonly tasks: number
  readonly keyed: number
  readonly uploads: number
  readonly share?: { readonly maxEntriesPerOwner: number, readonly maxBytesPerOwner: number }
}

const SMALL: Flood = {
  tasks: 60,
  keyed: 60,
  uploads: 150,
  share: { maxEntriesPerOwner: 40, maxBytesPerOwner: 400_000 },
}
const folder = mkdtempSync(join(tmpdir(), 'longhaul-flood-'))
after(() => { rmSync(folder, { recursive: true, force: true }) })
const url = await redisUrl()
const server = await postgresForFile()

interface Parts { readonly engine: TaskEngine, readonly store: Store }

const engines: Readonly<Record<string, { readonly flood: Flood, readonly open: () => Parts }>> = {
  'in memory, with the defaults and the numbers of an attack': {
    flood: { tasks: 200, keyed: 722, uploads: 3552 }, open: () => memory(),
  },
  'in memory, with little space and without shares': {
    flood: { tasks: 200, keyed: 60, uploads: 150 },
    open: () => memory({
      maxBytes: 100_000, maxBytesPerOwner: 100_000, store: { maxBytes: 700_000, maxBytesPerOwner: 700_000 },
    }),
  },
  'in memory, with a small share': {
    flood: SMALL, open: () => memory(SMALL.share),
  },
  'on Redis': {
    flood: SMALL,
    open: () => {
      const client = new Redis(url)
      after(() => { client.disconnect() })
      return redis({ client, namespace: `flood-${String(process.pid)}`, ...SMALL.share })
    },
  },
  'on PostgreSQL': {
    flood: SMALL,
    open: () => {
      const pool = new pg.Pool({ connectionString: server.url })
      after(() => pool.end())
      return postgres({ pool, timeoutMs: 20_000, ...SMALL.share })
    },
  },
}

/** Some 64 KB of errors in the stored progress and answer. */
const BAD_LINES = `${'x'.repeat(40)}\n`.repeat(300)
const owner = ({ headers }: HttpRequest): string => headers['x-user'] as string

function site({ engine, store }: Parts) {
  const blobs = store.shared ? new FolderBlobs(folder, { shared: true }) : new MemoryBlobs()
  const report = defineTask({ name: 'report', run: () => ({ message: 'done' }) })
  const lines = ndjsonUpload({ write: () => undefined, maxErrors: 300, background: { name: 'lines', blobs } })
  const tasks = createTasks({ engine, store, definitions: [report, lines.task], onError: () => undefined })
  closing.push(async () => {
    await tasks.close({ drainMs: 0 })
    await store.close()
  })
  const endpoints = taskEndpoints(tasks, { statusPath: '/tasks/{id}', owner })
  const upload = resumableUpload(async (request) => json(200, { size: (await request.body.bytes(1000))?.byteLength }), {
    store, blobs, owner, uploadPath: '/uploads/{id}',
  })
  const [submit, keyed] = [endpoints.submit(report), lines.handler(endpoints)]
  const send = (
    handler: Handler,
    user: string,
    path: string,
    headers: Record<string, string>,
    body?: string,
    method = 'POST',
  ) => inject(handler, { method, path, headers: { 'x-user': user, ...headers }, ...(body !== undefined && { body }) })
  return {
    submit: async (user: string) => {
      const response = await send(
        submit,
        user,
        '/reports',
        { 'content-type': 'application/json', 'prefer': 'respond-async' },
        '{}',
      )
      return { status: response.status, id: (await response.json<{ taskId: string }>()).taskId }
    },
    status: (user: string, id: string) => send(endpoints.status, user, `/tasks/${id}`, {}, undefined, 'GET'),
    keyed: (user: string, key: string) =>
      send(keyed, user, '/lines', { 'content-type': 'application/x-ndjson', 'idempotency-key': `"${key}"` }, BAD_LINES),
    upload: (user: string) =>
      send(upload.create, user, '/files', { 'upload-complete': '?1', 'x-long': 'h'.repeat(8000) }, '123456789'),
    head: (user: string, path: string) => send(upload.resource, user, path, {}, undefined, 'HEAD'),
  }
}

describe('A flood of one owner', () => {
  for (const [where, { flood, open }] of Object.entries(engines)) {
    test(where, async () => {
      const { submit, status, keyed, upload, head } = site(open())
      const before = await submit('bob')
      await eventually(
        async () => (await (await status('bob', before.id)).json<{ status: string }>()).status === 'completed',
      )
      const mine = await submit('mallory')
      await eventually(
        async () => (await (await status('mallory', mine.id)).json<{ status: string }>()).status === 'completed',
      )

      for (let n = 0; n < flood.tasks; n++) {
        const { id } = await submit('mallory')
        // One after the other, so that the limit of unfinished tasks is not reached.
        await eventually(
          async () => (await (await status('mallory', id)).json<{ status: string }>()).status === 'completed',
        )
      }
      for (let n = 0; n < flood.keyed; n++) assert.ok((await keyed('mallory', `key-${String(n)}`)).status < 500)
      const paths: string[] = []
      for (let n = 0; n < flood.uploads; n++) {
        const response = await upload('mallory')
        assert.equal(response.status, 200)
        paths.push(String(response.headers['location']))
      }

      assert.equal((await status('bob', before.id)).status, 200, 'a finished task of another owner is gone')
      const next = await submit('bob')
      assert.equal(next.status, 202)
      await eventually(async () => (await status('bob', next.id)).status === 200)
      assert.equal((await head('mallory', paths.at(-1) as string)).status, 204, 'the newest upload is gone')
      const newest = await keyed('mallory', 'key-last')
      const again = await keyed('mallory', 'key-last')
      assert.equal(again.headers['idempotent-replayed'], 'true')
      assert.deepEqual(await again.json(), await newest.json())
      if (flood.share) {
        await eventually(async () => (await status('mallory', mine.id)).status === 404)
        await eventually(async () => (await head('mallory', paths[0] as string)).status === 404)
      }
    })
  }

  test('stored uploads keep no headers after their response', async () => {
    const values: string[] = []
    const real = new MemoryStore()
    const { upload } = site({ ...memory(), store: storeLike(real, {
      replace: (key, value, revision, options) => {
        if (key.startsWith('upload:')) values.push(value)
        return real.replace(key, value, revision, options)
      },
    }) })
    const { headers } = await upload('ann')
    assert.ok(headers['location'])
    assert.ok(values.some((value) => value.includes('hhhh')))
    assert.ok(!values.at(-1)?.includes('hhhh'))
  })
})
