// What becomes of a run that began without a write, when it is written: what others did to the record meanwhile, and how often is written.
import assert from 'node:assert/strict'
import { describe, test, type TestContext } from 'node:test'
import { memory } from '../../../adapters/memory/index.js'
import { StoreUnavailableError, type Entry } from '../../../src/stores/store.js'
import { decode, encode } from '../../../src/tasks/codec.js'
import { taskKey } from '../../../src/tasks/ledger.js'
import type { TaskRecord } from '../../../src/tasks/record.js'
import { createTasks, defineTask, type TaskContext, type Tasks } from '../../../src/tasks/index.js'
import { deferred, ended, eventually } from './kit.js'

const turns = async (): Promise<void> => { for (let turn = 0; turn < 30; turn++) await new Promise((resolve) => { setImmediate(resolve) }) }

/** Tasks over memory with nothing between, what they write, and a hand that writes to the record beside them. */
function setUp(t: TestContext, run: (context: TaskContext & { taskId: string }) => unknown) {
  const { store, queue } = memory()
  const writes: string[] = []
  const heard: unknown[] = []
  /** What others do just before a run is written as begun. */
  const justBefore: { processing: (() => void) | undefined } = { processing: undefined }
  const replace = store.replace.bind(store)
  t.mock.method(store, 'replace', (...args: Parameters<typeof replace>) => {
    const state = args[1].slice(2, args[1].indexOf('"', 2))
    if (state === 'processing') {
      const { processing } = justBefore
      justBefore.processing = undefined
      processing?.()
    }
    const outcome = replace(...args) as { replaced: boolean }
    writes.push(`${state}${outcome.replaced ? '' : ' in vain'}`)
    return outcome
  })
  const entryOf = (id: string) => store.get(taskKey(id)) as Entry
  const recordOf = (id: string) => decode(id, entryOf(id).value)
  /** Writes to the record as somebody else would. */
  const put = (id: string, what: Partial<TaskRecord>) => {
    const record = { ...recordOf(id), ...what }
    void replace(taskKey(id), encode(record), entryOf(id).revision, {})
  }
  const work = defineTask({ name: 'work', maxPerOwner: 1, run: (_, context) => run(context as TaskContext & { taskId: string }) })
  const tasks: Tasks = createTasks({ store, queue, definitions: [work], onError: (error) => { heard.push(error) } })
  t.after(async () => {
    await tasks.close({ drainMs: 0 })
    await store.close()
  })
  return { store, work, tasks, writes, heard, justBefore, recordOf, put }
}

describe('a run that lasts', () => {
  test('is written as begun once, and ended by one write more', async (t) => {
    const gate = deferred()
    const { work, tasks, writes } = setUp(t, () => gate.promise)
    const { id } = await tasks.submit(work, 1)
    await turns()
    gate.resolve()
    await ended(tasks, id)
    assert.deepEqual(writes, ['processing', 'completed'])
  })

  test('is not written as begun again when its progress said so', async (t) => {
    const gate = deferred()
    const { work, tasks, writes } = setUp(t, ({ progress }) => {
      progress(1)
      return gate.promise
    })
    const { id } = await tasks.submit(work, 1)
    await turns()
    assert.deepEqual(writes, ['processing'])
    gate.resolve()
    await ended(tasks, id)
  })

  test('goes on when it can not be written as begun: its end says it too', async (t) => {
    const gate = deferred()
    const { store, work, tasks, heard } = setUp(t, () => gate.promise)
    let refused = 0
    const full = t.mock.method(store, 'replace', () => {
      refused++
      return Promise.reject(new StoreUnavailableError('full', { reason: 'full' }))
    })
    const { id } = await tasks.submit(work, 1)
    await turns()
    full.mock.restore()
    gate.resolve()
    const view = await ended(tasks, id)
    assert.deepEqual([refused, view.status, typeof view.startedAt, heard], [1, 'completed', 'string', []])
  })

  for (const what of ['cancelled', 'deleted'] as const) {
    test(`is told when it is to be written as begun and finds its record ${what}`, async (t) => {
      let signal: AbortSignal | undefined
      const { store, work, tasks, put, heard } = setUp(t, ({ taskId, signal: own }) => {
        signal = own
        if (what === 'cancelled') put(taskId, { state: 'cancelled' })
        else void store.delete(taskKey(taskId))
        return new Promise((_, reject) => { own.addEventListener('abort', () => { reject(own.reason as Error) }) })
      })
      await tasks.submit(work, 1)
      await eventually(() => signal?.aborted === true)
      await eventually(async () => (await tasks.health()).running === 0)
      assert.deepEqual(heard, [])
    })
  }
})

describe('a run that ends in the turn that it began in', () => {
  test('leaves nothing, and is no failure, when its record has gone', async (t) => {
    const { store, work, tasks, heard } = setUp(t, ({ taskId }) => { void store.delete(taskKey(taskId)) })
    await tasks.submit(work, 1)
    await turns()
    assert.deepEqual([heard, store.usage().entries], [[], 0])
  })

  test('is written as begun and as ended, each at once, when somebody touched the waiting record', async (t) => {
    const { work, tasks, put, writes } = setUp(t, ({ taskId }) => { put(taskId, {}) })
    const { id } = await tasks.submit(work, 1)
    assert.equal((await ended(tasks, id)).status, 'completed')
    assert.deepEqual(writes, ['completed in vain', 'processing', 'completed'])
  })

  test('does not take the task from another run that comes and goes before it is written', async (t) => {
    const { work, tasks, put, justBefore, recordOf, heard } = setUp(t, ({ taskId }) => {
      put(taskId, {})
      justBefore.processing = () => { put(taskId, { attempt: 1 }) }
    })
    const { id } = await tasks.submit(work, 1)
    await turns()
    const { state, attempt } = recordOf(id)
    assert.deepEqual([state, attempt, heard], ['queued', 1, []])
  })

  test('settles what hangs on the record when it was cancelled before it is written, by a process that died over it', async (t) => {
    const { store, work, tasks, put, justBefore } = setUp(t, ({ taskId }) => {
      put(taskId, {})
      justBefore.processing = () => { put(taskId, { state: 'cancelled' }) }
    })
    const { id } = await tasks.submit(work, 1, { owner: 'ann' })
    assert.equal(store.usage().entries, 2)
    await turns()
    assert.deepEqual([(await tasks.get(id))?.status, store.usage().entries], ['cancelled', 1])
  })
})

test('a job whose store was closed before it could run ends no process', async (t) => {
  let runs = 0
  const { store, work, tasks } = setUp(t, () => { runs++ })
  await tasks.submit(work, 1)
  await store.close()
  await turns()
  assert.equal(runs, 0)
})
