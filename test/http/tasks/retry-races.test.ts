// Retries against everything that may happen at the same time, over each engine.
import assert from 'node:assert/strict'
import { after, describe, test } from 'node:test'
import { Redis } from 'ioredis'
import { createTasks, defineTask, httpError, isHttpError, type Tasks } from 'longhaul'
import { memory } from 'longhaul/memory'
import { postgres } from 'longhaul/postgres'
import { redis } from 'longhaul/redis'
import pg from 'pg'
import { startPostgres } from '../../servers/postgres-server.js'
import { redisUrl } from '../../servers/redis-server.js'
import { isStoreUnavailable } from '../../../src/stores/store.js'
import { Spy, spyEngine } from '../../unit/kit/tasks.js'
import { deferred, eventually } from '../../kit/wait.js'

type Run = (context: {
  readonly attempt: number
  readonly signal: AbortSignal
  readonly progress: (done: number) => void
}) => unknown

/** What each task does, by its key. A task that is not here fails. */
const behaviours = new Map<string, Run>()
/** The inputs of all runs, by key. */
const inputs = new Map<string, unknown[]>()
let keys = 0

const run = (input: { readonly key: string }, context: Parameters<Run>[0]) => {
  inputs.set(input.key, [...inputs.get(input.key) ?? [], input])
  const behave = behaviours.get(input.key)
  if (!behave) throw httpError('conflict', { message: 'it failed' })
  return behave(context)
}
const work = defineTask({ name: 'work', run })
const limited = defineTask({ name: 'limited', run, maxPerOwner: 1 })
const definitions = [work, limited]

const server = await startPostgres()
const pool = new pg.Pool({ connectionString: server.url })
pool.on('error', () => undefined)
const client = new Redis(await redisUrl(), { maxRetriesPerRequest: null })
const namespace = `retry-${String(process.pid)}`
const engines = [
  { title: 'memory', parts: memory() },
  { title: 'Redis', parts: redis({ client, namespace }) },
  { title: 'PostgreSQL', parts: postgres({ pool }) },
]
const closings: (() => Promise<unknown>)[] = []
after(async () => {
  await Promise.all(closings.map((close) => close()))
  await Promise.all(engines.map(({ parts }) => parts.store.close()))
  client.disconnect()
  await pool.end()
  await server.stop()
})

/** Submits a task of a key of its own. */
async function submit(tasks: Tasks<typeof definitions>, first?: Run, definition: typeof definitions[number] = work) {
  const key = `k${String(++keys)}`
  if (first) behaviours.set(key, first)
  const { taskId: id } = await tasks.submit(definition, { key }, { owner: 'ann' })
  return { id, key }
}

/** Submits a task that fails. */
async function failed(tasks: Tasks<typeof definitions>, definition: typeof definitions[number] = work) {
  const { id, key } = await submit(tasks, undefined, definition)
  assert.equal((await tasks.wait(id, { timeoutMs: 10_000 }))?.status, 'failed')
  return { id, key, succeed: () => { behaviours.set(key, () => ({ message: 'done' })) } }
}

const codeOf = (reason: unknown) => isHttpError(reason) ? reason.code : String(reason)

for (const { title, parts: { engine, store } } of engines) {
  describe(`a retry over ${title}`, () => {
    const spy = new Spy()
    const tasks = createTasks({
      engine: spyEngine(engine, spy), store, definitions, onError: () => undefined,
    })
    closings.push(() => tasks.close({ drainMs: 0 }))

    test('runs the task again with the same id and input, and continues to count the attempts', async () => {
      const { id, key, succeed } = await failed(tasks)
      succeed()
      const queued = await tasks.retry(id)
      assert.deepEqual([queued?.taskId, queued?.status, queued?.error], [id, 'queued', undefined])
      const end = await tasks.wait(id, { timeoutMs: 10_000 })
      assert.deepEqual([end?.status, end?.attempt], ['completed', 2])
      assert.deepEqual(end?.attempts?.map(({ attempt, error }) => [attempt, error?.code]), [
        [1, 'conflict'], [2, undefined],
      ])
      assert.deepEqual(inputs.get(key), [{ key }, { key }])
      await assert.rejects(tasks.retry(id), { code: 'task_already_completed' })
    })

    test('keeps an input that is too long for the record, until the task is completed', async () => {
      const key = `large ${'x'.repeat(300_000)} ${title}`
      const { taskId: id } = await tasks.submit(work, { key })
      await tasks.wait(id, { timeoutMs: 10_000 })
      for (const attempt of [2, 3]) {
        if (attempt === 3) behaviours.set(key, () => ({ message: 'done' }))
        await tasks.retry(id)
        const end = await tasks.wait(id, { timeoutMs: 10_000 })
        assert.deepEqual([end?.attempt, end?.status], [attempt, attempt === 3 ? 'completed' : 'failed'])
      }
      assert.equal(inputs.get(key)?.length, 3)
    })

    test('runs the task once if several retries arrive at once, and the other retries get its status', async () => {
      const { id, key, succeed } = await failed(tasks)
      succeed()
      const calls = await Promise.allSettled(Array.from({ length: 8 }, () => tasks.retry(id)))
      const lost = calls.flatMap((call) => call.status === 'rejected' ? [codeOf(call.reason)] : [])
      assert.equal(lost.length, 7)
      for (const code of lost) assert.match(code, /^(task_not_final|task_already_completed)$/)
      await tasks.wait(id, { timeoutMs: 10_000 })
      assert.equal(inputs.get(key)?.length, 2)
    })

    test('succeeds or fails against a concurrent deletion', async () => {
      for (let n = 0; n < 8; n++) {
        const { id, key, succeed } = await failed(tasks)
        succeed()
        const [retried, deleted] = await Promise.all([
          tasks.retry(id).catch(codeOf), tasks.delete(id),
        ])
        if (deleted && retried !== undefined) {
          // The retry was first, and the task had ended again when it was deleted.
          assert.equal(inputs.get(key)?.length, 2)
        }
        assert.ok(deleted || retried !== undefined, 'one of them must win')
        if (!deleted) {
          assert.equal((await tasks.wait(id, { timeoutMs: 10_000 }))?.status, 'completed')
        } else assert.equal(await tasks.get(id), undefined)
      }
    })

    test('does not wait for the cancelled run, whose late progress and result are ignored', async () => {
      const [begun, again, released] = [deferred(), deferred(), deferred()]
      const { id, key } = await submit(tasks, async ({ progress }) => {
        begun.resolve()
        await again.promise
        progress(99)
        released.resolve()
        return { message: 'late' }
      })
      await begun.promise
      assert.equal((await tasks.cancel(id))?.status, 'cancelled')
      behaviours.set(key, async ({ progress }) => {
        progress(1)
        again.resolve()
        await released.promise
        return { message: 'of the retry' }
      })
      assert.equal((await tasks.retry(id))?.status, 'queued')
      const end = await tasks.wait(id, { timeoutMs: 10_000 })
      assert.deepEqual(
        [end?.status, end?.result, end?.progress?.done, end?.attempt],
        ['completed', { message: 'of the retry' }, 1, 2],
      )
    })

    test('takes a place of maxPerOwner, and is rejected if none is free', async () => {
      const { id, succeed } = await failed(tasks, limited)
      const gate = deferred()
      const other = await submit(tasks, async () => { await gate.promise; return {} }, limited)
      await assert.rejects(tasks.retry(id), { code: 'too_many_tasks', status: 429 })
      assert.equal((await tasks.get(id))?.status, 'failed')
      gate.resolve()
      await tasks.wait(other.id, { timeoutMs: 10_000 })
      succeed()
      await eventually(async () => await tasks.retry(id).catch(() => undefined) !== undefined)
      assert.equal((await tasks.wait(id, { timeoutMs: 10_000 }))?.status, 'completed')
    })

    test('counts one place of maxPerOwner beside another retry', async () => {
      const { id, succeed } = await failed(tasks, limited)
      succeed()
      await Promise.allSettled([tasks.retry(id), tasks.retry(id), tasks.retry(id)])
      assert.equal((await tasks.wait(id, { timeoutMs: 10_000 }))?.status, 'completed')
      await eventually(async () => {
        const next = await submit(tasks, () => ({}), limited).catch(() => undefined)
        return next !== undefined && await tasks.wait(next.id, { timeoutMs: 60_000 }) !== undefined
      })
    })

    for (const when of ['before', 'after'] as const) {
      test(`makes its change once if its process dies ${when} the change`, async () => {
        const { id, key, succeed } = await failed(tasks)
        succeed()
        const isRetry = (call: string): boolean => call === `change ${id}`
        spy.fault = (call) => {
          if (!isRetry(call)) return undefined
          spy.fault = () => undefined
          return when
        }
        await assert.rejects(tasks.retry(id), isStoreUnavailable)
        if (when === 'before') await tasks.retry(id)
        else await assert.rejects(tasks.retry(id), { code: /^task_/ })
        assert.equal((await tasks.wait(id, { timeoutMs: 10_000 }))?.status, 'completed')
        assert.equal(inputs.get(key)?.length, 2)
      })
    }

    test('returns undefined for an unknown task, and for a task of another owner', async () => {
      const { id } = await failed(tasks)
      assert.equal(await tasks.retry('unknown'), undefined)
      assert.equal(await tasks.ownedBy('bob').retry(id), undefined)
      assert.equal(await tasks.ownedBy(undefined).retry(id), undefined)
      assert.equal((await tasks.get(id))?.status, 'failed')
      assert.equal((await tasks.ownedBy('ann').retry(id))?.status, 'queued')
    })
  })
}
