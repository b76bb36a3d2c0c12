// Stored bodies and finished parts live as long as their task may be retried (issues 18 and 19).
import assert from 'node:assert/strict'
import { mkdtempSync, rmSync } from 'node:fs'
import { createServer } from 'node:http'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { describe, test, type TestContext } from 'node:test'
import { createTasks, defineTask, httpError, router, taskEndpoints, type AnyTaskDefinition } from 'longhaul'
import { bulkCreate, bulkItems, type BulkTaskResult } from 'longhaul/bulk'
import { exportTask } from 'longhaul/export'
import { FolderBlobs } from 'longhaul/files'
import { memory, MemoryBlobs } from 'longhaul/memory'
import { ndjsonUpload, type UploadResult } from 'longhaul/ndjson'
import { attach } from 'longhaul/node'
import type { Blobs } from 'longhaul/stores'
import { listen } from '../../kit/listen.js'
import { ask } from '../kit/wire.js'
import { deferred, eventually } from '../../kit/wait.js'

const HOUR = 3_600_000
const DAY = 24 * HOUR
const LATER = { prefer: 'respond-async' }

/** Blobs whose clock the test moves. */
interface Clocked {
  readonly blobs: Blobs
  readonly advance: (ms: number) => Promise<void>
}

function inMemory(): Clocked {
  let time = 0
  const blobs = new MemoryBlobs({ now: () => time })
  return { blobs, advance: async (ms) => { time += ms } }
}

function inFolder(t: TestContext): Clocked {
  const folder = mkdtempSync(join(tmpdir(), 'longhaul-retry-'))
  let time = 1_700_000_000_000
  const blobs = new FolderBlobs(folder, { now: () => time })
  t.after(() => { rmSync(folder, { recursive: true, force: true }) })
  return {
    blobs,
    advance: async (ms) => {
      time += ms
      await blobs.sweep()
    },
  }
}

/** True for the key of a part of a report. */
const isPart = (key: string): boolean => /\/\d+\/\d+$/.test(key)

/** The keys of all blobs that are written from now on. */
function keysOf(blobs: Blobs): string[] {
  const keys: string[] = []
  const put = blobs.put.bind(blobs)
  blobs.put = (key, ...rest) => {
    keys.push(key)
    return put(key, ...rest)
  }
  return keys
}

/** Returns a function that waits until bodies were renewed so often. What is beside them is renewed before. */
function renewalsOf(blobs: Blobs): (count: number) => Promise<void> {
  let renewals = 0
  const renew = blobs.renew.bind(blobs)
  blobs.renew = async (key, ttlMs) => {
    const info = await renew(key, ttlMs)
    if (info !== undefined && !isPart(key)) renewals++
    return info
  }
  return (count) => eventually(() => renewals >= count)
}

/** The first MiB of a blob, then a failure. */
async function* broken(bytes: AsyncIterable<Uint8Array>): AsyncGenerator<Uint8Array> {
  let read = 0
  for await (const piece of bytes) {
    yield piece
    read += piece.byteLength
    if (read > 2 ** 20) throw new Error('the disk is gone')
  }
}

/** A server with background tasks. `post` returns the path of a task, after its end or `until`. */
async function site(
  t: TestContext, definitions: readonly AnyTaskDefinition[], blobs: Blobs,
  handlers: (endpoints: ReturnType<typeof taskEndpoints>) => Parameters<typeof router>[0],
) {
  const { engine, store } = memory()
  const tasks = createTasks({
    engine, store, blobs, definitions, onError: () => undefined,
    retentionMs: DAY, pendingMs: 7 * DAY,
  })
  const endpoints = taskEndpoints(tasks, { statusPath: '/status/{id}', owner: 'anyone' })
  const handler = router({
    ...handlers(endpoints), '/status/{id}': endpoints.status, 'POST /status/{id}/retry': endpoints.retry,
  })
  const server = createServer()
  attach(server, handler)
  const { port, close } = await listen(server)
  t.after(async () => {
    await close()
    await tasks.close({ drainMs: 0 })
    await blobs.close()
  })
  const ended = async (path: string) => tasks.wait(path.split('/').at(-1) ?? '', { timeoutMs: 10_000 })
  const post = async (path: string, body: string, type: string, until?: Promise<void>) => {
    const { status, headers } = await ask(port, 'POST', path, { body, headers: { 'content-type': type, ...LATER } })
    assert.equal(status, 202)
    const location = headers.location as string
    await (until ?? ended(location))
    return location
  }
  const retry = (path: string) => ask(port, 'POST', `${path}/retry`)
  const get = (path: string) => ask(port, 'GET', path)
  return { tasks, post, retry, ended, get }
}

for (const [kind, open] of [['memory', inMemory], ['a folder', inFolder]] as const) {
  describe(`the stored body of a failed task in ${kind}`, () => {
    /** An upload that fails until `state.mended`. Its blobs expire after a second. */
    async function failedUpload(t: TestContext) {
      const { blobs, advance } = open(t)
      const keys = keysOf(blobs)
      const renewed = renewalsOf(blobs)
      const state = { mended: false, rows: 0 }
      let failures = 0
      const upload = ndjsonUpload<{ id: number }>({
        batchSize: 1, maxErrors: 1000,
        write: (records) => {
          if (!state.mended && records.some(({ id }) => id === -1)) throw new Error('the database is gone')
          state.rows += records.length
        },
        background: { name: 'upload', blobs, attempts: 1, blobRetentionMs: 1000 },
      })
      const made = await site(t, [upload.task], blobs, (endpoints) => ({
        'POST /upload': upload.handler(endpoints),
      }))
      const fail = async (body = '{"id":1}\n{"id":-1}\n') => {
        const path = await made.post('/upload', body, 'application/x-ndjson')
        await renewed(++failures)
        return path
      }
      return { ...made, blobs, advance, keys, state, fail, renewed }
    }

    test('lives as long as the task may be retried', async (t) => {
      const { fail, retry, ended, advance, state } = await failedUpload(t)
      const path = await fail()
      await advance(DAY)
      state.mended = true
      assert.equal((await retry(path)).status, 202)
      assert.equal((await ended(path))?.status, 'completed')
      assert.equal(state.rows, 2)
    })

    test('lives as long as a retried task may wait, and as long as it can be retried afterwards', async (t) => {
      const { fail, retry, ended, advance, keys, blobs } = await failedUpload(t)
      const path = await fail()
      assert.equal((await retry(path)).status, 202)
      assert.equal((await ended(path))?.status, 'failed')
      await advance(8 * DAY)
      assert.ok(await blobs.stat(keys[0] as string))
    })

    test('expires after its task', async (t) => {
      const { fail, advance, keys, blobs } = await failedUpload(t)
      await fail()
      await advance(DAY + 2 * HOUR)
      assert.equal(await blobs.stat(keys[0] as string), undefined)
    })

    test('is renewed with the errors that are stored beside it', async (t) => {
      const { fail, retry, ended, advance, state, keys } = await failedUpload(t)
      const path = await fail(`${'wrong\n'.repeat(900)}{"id":1}\n{"id":-1}\n`)
      assert.ok(keys.some((key) => key.endsWith('/1/0')), keys.join())
      await advance(DAY)
      state.mended = true
      assert.equal((await retry(path)).status, 202)
      const end = await ended(path)
      assert.equal(end?.status, 'completed')
      assert.equal((end.result as UploadResult).items.length, 900)
    })

    test('is deleted, which makes a retry a 410 at once, and the task stays unchanged', async (t) => {
      const { fail, retry, advance, tasks, blobs, keys, state } = await failedUpload(t)
      for (const lose of [() => blobs.delete(keys.at(-1) as string), () => advance(2 * DAY)]) {
        const path = await fail()
        const id = path.split('/').at(-1) as string
        const before = await tasks.get(id)
        await lose()
        state.mended = true
        const { status, body } = await retry(path)
        assert.deepEqual([status, JSON.parse(body).code], [410, 'gone'])
        await assert.rejects(tasks.retry(id), { code: 'gone' })
        assert.deepEqual(await tasks.get(id), before)
        state.mended = false
      }
    })

    test('makes a retry a 409 if another retry has used the body, because the task is completed', async (t) => {
      const { fail, retry, ended, blobs, keys, state } = await failedUpload(t)
      const path = await fail()
      state.mended = true
      const [waiting, go] = [deferred(), deferred()]
      const renew = blobs.renew.bind(blobs)
      blobs.renew = async (key, ttlMs) => {
        blobs.renew = renew
        waiting.resolve()
        await go.promise
        return renew(key, ttlMs)
      }
      const late = retry(path)
      await waiting.promise
      assert.equal((await retry(path)).status, 202)
      assert.equal((await ended(path))?.status, 'completed')
      await eventually(async () => await blobs.stat(keys[0] as string) === undefined)
      go.resolve()
      const { status, body } = await late
      assert.deepEqual([status, JSON.parse(body).code], [409, 'task_already_completed'])
    })

    test('is renewed with the report of a failed bulk task, and a retry continues', async (t) => {
      const { blobs, advance } = open(t)
      const keys = keysOf(blobs)
      const renewed = renewalsOf(blobs)
      const written: number[] = []
      const create = bulkCreate<{ id: number }, { n: number }>({
        repository: {
          createMany: (drafts) => {
            written.push(...drafts.map(({ n }) => n))
            return drafts.map(({ n }) => ({ id: n }))
          },
        },
        background: { name: 'create', blobs, attempts: 1, blobRetentionMs: 1000, maxInlineBytes: 100 },
      })
      const { post, retry, ended, get } = await site(t, [create.task], blobs, (endpoints) => ({
        'POST /users': create.handler(endpoints), '/status/{id}/items': bulkItems({ endpoints, blobs }),
      }))
      const items = Array.from({ length: 20_000 }, (_, n) => ({ n, text: 'x'.repeat(90) }))
      // The stored body fails in the middle of the work.
      let opened = 0
      const openBlob = blobs.open.bind(blobs)
      blobs.open = async (key, range) => {
        const bytes = await openBlob(key, range)
        return isPart(key) || ++opened !== 1 || bytes === undefined ? bytes : broken(bytes)
      }
      const path = await post('/users', JSON.stringify(items), 'application/json')
      await renewed(1)
      assert.ok(written.length > 1000 && written.length < 20_000, `${written.length} items were written`)
      assert.ok(keys.some((key) => key.endsWith('/1/0')), keys.join())
      await advance(DAY)
      assert.equal((await retry(path)).status, 202)
      const end = await ended(path)
      assert.equal(end?.status, 'completed')
      assert.deepEqual(end.result && (end.result as unknown as BulkTaskResult).summary, {
        total: 20_000,
        succeeded: 20_000,
        failed: 0,
      })
      assert.deepEqual(written, items.map(({ n }) => n), 'each item is written once')
      const { body: report } = await get(`${path}/items`)
      assert.deepEqual(report.split('\n').slice(0, -1).map((line) => JSON.parse(line).id), written)
    })

    test('is renewed for a bulk request that was cancelled', async (t) => {
      const { blobs, advance } = open(t)
      const renewed = renewalsOf(blobs)
      const [started, go] = [deferred(), deferred()]
      const create = bulkCreate<{ id: number }, { email: string }>({
        repository: {
          create: async () => {
            started.resolve()
            await go.promise
            return { id: 1 }
          },
        },
        background: { name: 'create', blobs, attempts: 1, blobRetentionMs: 1000 },
      })
      const { post, retry, ended, tasks } = await site(t, [create.task], blobs, (endpoints) => ({
        'POST /users': create.handler(endpoints),
      }))
      const path = await post('/users', '[{"email":"a@b.example"}]', 'application/json', started.promise)
      await tasks.cancel(path.split('/').at(-1) as string)
      await renewed(1)
      await advance(DAY)
      go.resolve()
      assert.equal((await retry(path)).status, 202)
      assert.equal((await ended(path))?.status, 'completed')
    })

    test('the parts of an export live as long as a retried task may wait', async (t) => {
      const { blobs, advance } = open(t)
      const keys = keysOf(blobs)
      const from: number[] = []
      const users = exportTask<object, { id: number }>({
        name: 'users', attempts: 1, partRecords: 10,
        async* records(_, context) {
          from.push(context.from())
          for (let id = context.from(); id < 35; id++) {
            if (id === 25 && from.length === 1) throw new Error('the database is gone')
            yield { id }
          }
        },
      })
      const [started, go] = [deferred(), deferred()]
      const other = defineTask({
        name: 'other',
        run: async () => {
          started.resolve()
          await go.promise
        },
      })
      const { engine, store } = memory()
      const tasks = createTasks({
        engine, store, blobs, definitions: [users, other], concurrency: 1, onError: () => undefined,
      })
      t.after(async () => {
        await tasks.close({ drainMs: 0 })
        await blobs.close()
      })
      const { taskId } = await tasks.submit(users, {})
      assert.equal((await tasks.wait(taskId, { timeoutMs: 10_000 }))?.status, 'failed')
      await tasks.submit(other, {})
      await started.promise
      await tasks.retry(taskId)
      await advance(6 * DAY)
      go.resolve()
      const end = await tasks.wait(taskId, { timeoutMs: 10_000 })
      assert.equal(end?.status, 'completed')
      assert.deepEqual(from, [0, 20])
      assert.equal(end.files?.length, 4)
      // The files live as long as the task, which has ended now.
      await advance(DAY)
      const found = await Promise.all(keys.map((key) => blobs.stat(key)))
      assert.equal(found.filter((info) => info !== undefined).length, 4)
    })
  })
}

test('the stored body of a task with a later start lives until the start and for the longest wait after it', async (t) => {
  const { blobs, advance } = inMemory()
  const upload = ndjsonUpload<object>({
    write: () => undefined,
    background: { name: 'upload', blobs, attempts: 1, blobRetentionMs: 1000 },
  })
  const { tasks } = await site(t, [upload.task], blobs, () => ({}))
  const blob = `ndjson-upload/${'a'.repeat(22)}`
  const body = async function* () {
    yield Buffer.from('{"id":1}\n')
  }
  await blobs.put(blob, body(), { ttlMs: 1000 })
  const input = { blob, coding: 'identity', size: 9 }
  await tasks.submit(upload.task, input, { delayMs: 30 * DAY })
  await advance(37 * DAY)
  assert.equal((await blobs.stat(blob))?.size, 9)
  await blobs.delete(blob)
  await assert.rejects(tasks.submit(upload.task, input, { delayMs: DAY }), { code: 'gone' })
})

describe('external.renew of an application', () => {
  /** A task that fails, with a resource of the application. */
  async function failed(t: TestContext, renew?: (name: string, ttlMs: number) => boolean | Promise<boolean>) {
    const calls: [string, number][] = []
    const work = defineTask({
      name: 'work', retentionMs: HOUR,
      run: () => { throw httpError('unprocessable') },
      external: {
        of: () => 'upload-1', release: () => undefined,
        ...renew && {
          renew: (name: string, ttlMs: number) => {
            calls.push([name, ttlMs])
            return renew(name, ttlMs)
          },
        },
      },
    })
    const made = await site(t, [work], new MemoryBlobs(), (endpoints) => ({ 'POST /work': endpoints.submit(work) }))
    const path = await made.post('/work', '{}', 'application/json')
    return { ...made, path, calls }
  }

  test('is called when the task has failed and before a retry, with the time for which the resource is needed', async (t) => {
    const { calls, retry, path, ended } = await failed(t, () => true)
    await eventually(() => calls.length === 1)
    assert.equal((await retry(path)).status, 202)
    await ended(path)
    await eventually(() => calls.length === 3)
    assert.deepEqual(calls, [['upload-1', 2 * HOUR], ['upload-1', 7 * DAY + 2 * HOUR], ['upload-1', 2 * HOUR]])
  })

  test('is called when the task is cancelled', async (t) => {
    const calls: string[] = []
    const started = deferred()
    const work = defineTask({
      name: 'work',
      run: async (_, { signal }) => {
        started.resolve()
        await new Promise((resolve) => { signal.addEventListener('abort', resolve) })
      },
      external: {
        of: () => 'upload-1', release: () => undefined,
        renew: (name) => {
          calls.push(name)
          return true
        },
      },
    })
    const { tasks } = await site(t, [work], new MemoryBlobs(), () => ({}))
    const { taskId } = await tasks.submit(work, {})
    await started.promise
    await tasks.cancel(taskId)
    assert.deepEqual(calls, ['upload-1'])
  })

  test('makes a retry a 410 if it returns false, and fails only the retry if it throws', async (t) => {
    let renew = async (): Promise<boolean> => false
    const { retry, path, tasks } = await failed(t, () => renew())
    const { status, body } = await retry(path)
    assert.deepEqual([status, JSON.parse(body).code], [410, 'gone'])
    renew = async () => { throw httpError('service_unavailable') }
    assert.equal((await retry(path)).status, 503)
    assert.equal((await tasks.get(path.split('/').at(-1) as string))?.attempt, 1)
  })

  test('is optional', async (t) => {
    const { retry, path } = await failed(t)
    assert.equal((await retry(path)).status, 202)
  })
})
