// Exports that continue after the parts of an earlier run, on the engine in memory.
import assert from 'node:assert/strict'
import { describe, test, type TestContext } from 'node:test'
import { defineTask, permanent } from 'longhaul'
import { exportTask } from 'longhaul/export'
import type { ExportTaskOptions } from '../../../../src/export/export-task.js'
import { memoryEngine } from '../../kit/file-engines.js'
import { filesSite } from '../../kit/task-files.js'
import { deferred, eventually } from '../../../kit/wait.js'

interface User { readonly id: number }

const RECORDS = 95
const users = Array.from({ length: RECORDS }, (_, at): User => ({ id: at + 1 }))
/** Numbers at which an attempt fails, one for each attempt. */
type Failures = readonly number[]

/** An export whose attempts fail. `from` has where each run began, `read` the records that it got. */
function failing(failures: Failures, options: Partial<ExportTaskOptions<object, User>> = {}) {
  const from: number[] = []
  const read: number[][] = []
  const ids = async function* (attempt: number, start: number) {
    const own: number[] = []
    read.push(own)
    for (const user of users.slice(start)) {
      if (user.id === failures[attempt - 1]) throw new Error('the database is gone')
      own.push(user.id)
      yield user
    }
  }
  const task = exportTask<object, User>({
    name: 'users', partRecords: 10, attempts: 5, backoff: { type: 'fixed', delayMs: 1 },
    total: () => RECORDS,
    records: (_, context) => {
      from.push(context.from())
      return ids(context.attempt, from.at(-1) as number)
    },
    ...options,
  })
  return { task, from, read, ids }
}

async function open(t: TestContext, task: ReturnType<typeof exportTask<object, User>>) {
  const engine = await memoryEngine()
  const site = await filesSite(t, engine, [task])
  t.after(() => engine.close())
  /** Downloads all files of a task. */
  const texts = async (path: string): Promise<string[]> => {
    const { files = [] } = await site.status(path)
    return Promise.all(files.map(async ({ url }) => (
      (await site.call('GET', url, { 'x-user': 'ann' })).text()
    )))
  }
  return { engine, texts, ...site }
}

/** Checks that a task is as an undisturbed one would be, and that no other blob is left. */
async function assertComplete(
  { status, texts, engine }: Awaited<ReturnType<typeof open>>, path: string,
): Promise<void> {
  const { body, expected } = await undisturbed
  const now = await status(path)
  assert.deepEqual({ status: now.status, result: now.result }, { status: body.status, result: body.result })
  const bare = ({ files = [] }: typeof now) => files.map(({ url, ...file }) => file)
  assert.deepEqual(bare(now), bare(body))
  assert.deepEqual(await texts(path), expected)
  await eventually(async () => await engine.blobCount() === 10)
}

const undisturbed = (async () => {
  const cleanups: (() => unknown)[] = []
  const t = { after: (cleanup: () => unknown) => { cleanups.unshift(cleanup) } } as TestContext
  const site = await open(t, failing([]).task)
  const { body, path } = await site.ran('users')
  const expected = await site.texts(path)
  for (const cleanup of cleanups) await cleanup()
  return { body, expected }
})()

test('exportTask and defineTask reject partialFiles without parts and without files', () => {
  const work = { name: 'users', partialFiles: true } as const
  assert.throws(() => exportTask({ ...work, records: () => [] }), /partialFiles needs partRecords/)
  assert.throws(() => defineTask({ ...work, run: () => ({}) }), /partialFiles needs files: true/)
})

describe('an export in parts', () => {
  test('keeps the finished parts when attempts fail, and begins after their records', async (t) => {
    const { task, from, read } = failing([25, 26, 27, 61])
    const site = await open(t, task)
    const { path, body } = await site.ran('users')
    assert.equal(body.attempt, 5)
    assert.deepEqual(from, [0, 20, 20, 20, 60])
    assert.equal(read[4]?.[0], 61)
    await assertComplete(site, path)
  })

  test('skips the records of finished parts if the source begins at the first record', async (t) => {
    const starts: number[] = []
    const { task, ids } = failing([25, 45], {
      records: (_, { attempt }) => {
        starts.push(attempt)
        return ids(attempt, 0)
      },
    })
    const site = await open(t, task)
    const { path } = await site.ran('users')
    assert.deepEqual(starts, [1, 2, 3])
    await assertComplete(site, path)
  })

  test('allows a generator to call from() itself', async (t) => {
    const starts: number[] = []
    const { task, ids } = failing([25, 45], {
      async* records(_, { attempt, from }) {
        starts.push(from())
        yield* ids(attempt, from())
      },
    })
    const site = await open(t, task)
    const { path } = await site.ran('users')
    assert.deepEqual(starts, [0, 20, 40])
    await assertComplete(site, path)
  })

  test('keeps its parts for a retry if it fails, and leaves no blob when it is deleted', async (t) => {
    const { task, from } = failing([45, 81], { attempts: 1 })
    const site = await open(t, task)
    const { path, body: { taskId } } = await site.ran('users')
    assert.equal((await site.status(path)).files, undefined, 'clients do not see them')
    assert.equal((await site.call('GET', `${path}/files/users-0001.ndjson`, { 'x-user': 'ann' })).status, 404)
    await eventually(async () => await site.engine.blobCount() === 4)
    await site.tasks.retry(taskId)
    assert.equal((await site.end(path)).status, 'failed')
    await eventually(async () => await site.engine.blobCount() === 8)
    await site.tasks.retry(taskId)
    await site.end(path)
    assert.deepEqual(from, [0, 40, 80])
    await assertComplete(site, path)
    const other = failing([45], { attempts: 1 })
    const forgotten = await open(t, other.task)
    const { body } = await forgotten.ran('users')
    await eventually(async () => await forgotten.engine.blobCount() === 4)
    await forgotten.tasks.delete(body.taskId)
    assert.equal(await forgotten.engine.blobCount(), 0)
  })

  test('keeps its parts for a retry if it is cancelled', async (t) => {
    const [reached, go] = [deferred<void>(), deferred<void>()]
    const { task, from, ids } = failing([], {
      async* records(_, context) {
        from.push(context.from())
        for await (const user of ids(context.attempt, context.from())) {
          yield user
          if (user.id !== 35 || from.length > 1) continue
          reached.resolve()
          await go.promise
        }
      },
    })
    const site = await open(t, task)
    const { taskId } = await site.tasks.submit(task, {}, { owner: 'ann' })
    await reached.promise
    await site.tasks.cancel(taskId)
    go.resolve()
    await eventually(async () => await site.engine.blobCount() === 3)
    await site.tasks.retry(taskId)
    await site.end(`/v1/tasks/${taskId}`)
    assert.deepEqual(from, [0, 30])
    await assertComplete(site, `/v1/tasks/${taskId}`)
  })

  test('keeps the CSV columns of the first record, although a later run does not read it', async (t) => {
    let runs = 0
    const task = exportTask<object, User>({
      name: 'users', partRecords: 1, format: 'csv', attempts: 2, backoff: { type: 'fixed', delayMs: 1 },
      async* records(_, { from }) {
        const rows = [{ id: 1 }, { id: 2, late: 'x' }]
        yield* rows.slice(from(), from() + 1)
        if (runs++ === 0) throw new Error('the database is gone')
      },
    })
    const site = await open(t, task)
    const { path } = await site.ran('users')
    assert.deepEqual(await site.texts(path), ['id\r\n1\r\n', 'id\r\n2\r\n'])
  })

  test('starts over if a kept part no longer exists', async (t) => {
    const { task, from } = failing([45], { attempts: 1 })
    const site = await open(t, task)
    const { path, body: { taskId } } = await site.ran('users')
    const stored = await site.engine.parts.engine.read(taskId)
    const [run = ''] = /[\w-]+\.1\/2/.exec(JSON.stringify(stored?.details)) ?? []
    assert.equal(await site.engine.parts.blobs.delete(`task-files/${taskId}/${run}`), true)
    await site.tasks.retry(taskId)
    await site.end(path)
    assert.deepEqual(from, [0, 0])
    await assertComplete(site, path)
  })

  test('starts over if its options have changed, and reports this to onError', async (t) => {
    const old = failing([45], { attempts: 1, partRecords: 20 })
    const { task, from } = failing([], { attempts: 1 })
    let now = old.task
    // A later process has a definition of the same name with other options.
    const site = await open(t, {
      ...old.task,
      run: (input, context) => now.run(input, context),
      get checkpoint() {
        return now.checkpoint as NonNullable<typeof now.checkpoint>
      },
    })
    const { path, body } = await site.ran('users')
    assert.equal(body.status, 'failed')
    const heard = site.heard.length
    now = task
    await site.tasks.retry(body.taskId)
    const end = await site.end(path)
    assert.equal(end.files?.length, 10)
    assert.deepEqual(from, [0])
    assert.deepEqual(site.heard.slice(heard).map((error) => (error as { code?: string }).code), ['checkpoint_dropped'])
    await eventually(async () => await site.engine.blobCount() === 10)
  })

  test('keeps its parts even after an error that ends all attempts', async (t) => {
    let isMended = false
    const { task, from, ids } = failing([], {
      async* records(_, context) {
        from.push(context.from())
        if (!isMended && context.from() === 30) throw permanent(new Error('wrong'))
        for await (const user of ids(1, context.from())) {
          if (!isMended && user.id === 35) throw permanent(new Error('wrong'))
          yield user
        }
      },
    })
    const site = await open(t, task)
    const { path, body } = await site.ran('users')
    assert.deepEqual([body.status, body.attempt], ['failed', 1])
    isMended = true
    await site.tasks.retry(body.taskId)
    await site.end(path)
    assert.deepEqual(from, [0, 30])
    await assertComplete(site, path)
  })
})
