// What finished tasks keep in blobs: it counts for their owner, and goes with them.
import assert from 'node:assert/strict'
import { describe, test, type TestContext } from 'node:test'
import { memory } from '../../../../../adapters/memory/index.js'
import { bulkCreate } from '../../../../../src/bulk/create.js'
import { ndjsonUpload } from '../../../../../src/ndjson/upload.js'
import { httpError } from '../../../../../src/http/errors.js'
import { defineTask, type AnyTaskDefinition } from '../../../../../src/tasks/definition/define.js'
import { taskEndpoints } from '../../../../../src/tasks/http/endpoints.js'
import { createTasks } from '../../../../../src/tasks/tasks.js'
import { ask, draft, people, Users, type Draft, type User } from '../../../kit/bulk.js'
import { ended, Spy, spyEngine } from '../../../kit/tasks.js'
import { eventually } from '../../../../kit/wait.js'

function setUp(
  t: TestContext,
  parts: ReturnType<typeof memory>,
  definitions: readonly AnyTaskDefinition[],
  maxFileBytesPerOwner: number,
) {
  const tasks = createTasks({ ...parts, definitions, maxFileBytesPerOwner, onError: () => undefined })
  t.after(() => tasks.close({ drainMs: 0 }))
  const endpoints = taskEndpoints(tasks, {
    statusPath: '/tasks/{id}',
    anonymous: true,
    owner: ({ headers }) => headers['x-user'] as string | undefined,
  })
  const left = async (ids: readonly string[]) => {
    const all = await Promise.all(ids.map((id) => tasks.get(id)))
    return ids.filter((_, n) => all[n] !== undefined)
  }
  return { tasks, endpoints, left }
}

describe('the data of finished tasks in blobs', () => {
  test('count as result files: an owner above its limit loses its own oldest files, with their blobs', async (t) => {
    const parts = memory()
    const report = defineTask({
      name: 'report', files: true,
      run: async (bytes: number, { files }) => {
        if (bytes > 0) await files.write('a.txt', Buffer.alloc(bytes))
        return { message: 'done' }
      },
    })
    const { tasks, left } = setUp(t, parts, [report], 30_000)
    const submit = async (owner: string, bytes: number) => {
      const { taskId } = await tasks.submit(report, bytes, { owner })
      await ended(tasks, taskId)
      return taskId
    }
    const others = [await submit('bob', 29_000), await submit('ann', 0)]
    const ids: string[] = []
    for (let n = 0; n < 6; n++) ids.push(await submit('ann', 10_000))
    assert.deepEqual(await left([...others, ...ids]), [...others, ...ids.slice(-3)])
    await eventually(() => parts.blobs.usage().blobs === 4)
    const large = await submit('ann', 100_000)
    assert.deepEqual(await left([...others, ...ids, large]), [...others, large], 'the newest stays, whatever its size')
    await eventually(() => parts.blobs.usage().blobs === 2)
  })

  test('count as reports of bulk requests, and are deleted with their tasks', async (t) => {
    const parts = memory()
    const bulk = bulkCreate<User, Draft>({
      repository: new Users(), schema: draft, background: { name: 'create', blobs: parts.blobs, maxInlineBytes: 10 },
    })
    const { tasks, endpoints, left } = setUp(t, parts, [bulk.task], 20_000)
    const keys: string[] = []
    const put = parts.blobs.put.bind(parts.blobs)
    parts.blobs.put = (key, ...rest) => {
      if (key.endsWith('/1/0')) keys.push(key)
      return put(key, ...rest)
    }
    const ids: string[] = []
    for (let n = 0; n < 6; n++) {
      const told = await ask(bulk.handler(endpoints), {
        headers: { 'prefer': 'respond-async', 'x-user': 'ann' }, body: people(200),
      })
      assert.equal(told.status, 202)
      ids.push((told.json as { taskId?: unknown } as { taskId: string }).taskId)
      await ended(tasks, ids.at(-1) as string)
    }
    const kept = await left(ids)
    assert.deepEqual(kept, ids.slice(-kept.length))
    assert.ok(kept.length < 6, `${String(kept.length)} stay`)
    const reports = await Promise.all(keys.map(async (key) => await parts.blobs.stat(key) !== undefined))
    assert.deepEqual(reports, ids.map((id) => kept.includes(id)))
  })

  test('count as the body of a failed import, until it is retried or deleted', async (t) => {
    const parts = memory()
    const upload = ndjsonUpload<object>({
      write: () => { throw httpError('conflict') }, background: { name: 'rows', blobs: parts.blobs },
    })
    const { tasks, endpoints, left } = setUp(t, parts, [upload.task], 10_000)
    const ids: string[] = []
    for (let n = 0; n < 5; n++) {
      const told = await ask(upload.handler(endpoints), {
        headers: { 'prefer': 'respond-async', 'x-user': 'ann', 'content-type': 'application/x-ndjson' },
        body: Buffer.from(`${JSON.stringify({ text: 'x'.repeat(3900) })}\n`),
      })
      ids.push((told.json as { taskId?: unknown } as { taskId: string }).taskId)
      assert.equal((await ended(tasks, ids.at(-1) as string)).status, 'failed')
    }
    assert.deepEqual(await left(ids), ids.slice(-2))
    await eventually(() => parts.blobs.usage().blobs === 2)
  })
})

test('the files of a run stay if the response to its end is lost for good', async (t) => {
  const parts = memory()
  const spy = new Spy()
  const report = defineTask({
    name: 'report', files: true,
    run: async (_, { files }) => {
      await files.write('a.txt', Buffer.from('text'))
      return { message: 'done' }
    },
  })
  const tasks = createTasks({
    ...parts,
    engine: spyEngine(parts.engine, spy),
    definitions: [report],
    onError: () => undefined,
  })
  const { taskId } = await tasks.submit(report, {})
  spy.fault = (call) => (call === `change ${taskId}` && parts.blobs.usage().blobs > 0 ? 'after' : undefined)
  await tasks.close({ drainMs: 500 })
  const task = await parts.engine.read(taskId)
  assert.equal(task?.status, 'completed')
  t.after(() => parts.blobs.close())
  assert.equal(parts.blobs.usage().blobs, 1)
})

test('a value of `external` that is not a number of bytes counts nothing', async (t) => {
  for (const bytes of [1.5, NaN, -1, '7' as unknown as number]) {
    const parts = memory()
    const work = defineTask({
      name: 'work',
      run: () => ({}),
      external: { of: () => 'a', release: () => undefined, bytes: () => bytes },
    })
    const { tasks, left } = setUp(t, parts, [work], 10)
    const ids: string[] = []
    for (let n = 0; n < 3; n++) {
      ids.push((await tasks.submit(work, {}, { owner: 'ann' })).taskId)
      await ended(tasks, ids.at(-1) as string)
    }
    assert.deepEqual(await left(ids), ids)
  }
})
