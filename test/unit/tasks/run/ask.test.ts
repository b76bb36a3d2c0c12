// Questions beside what else a run has: an external resource, a lost reply of the engine, progress, a test context.
import assert from 'node:assert/strict'
import { describe, test, type TestContext as Test } from 'node:test'
import { memory } from '../../../../adapters/memory/index.js'
import { jsonSchema } from '../../../../src/schema/json-schema.js'
import { createTasks } from '../../../../src/tasks/tasks.js'
import { defineTask } from '../../../../src/tasks/definition/define.js'
import { testContext } from '../../../../src/testing/index.js'
import { bench } from '../../kit/tasks.js'
import { eventually } from '../../../kit/wait.js'

const HOUR = 3_600_000
const asks = { go: jsonSchema<boolean>({ type: 'boolean' }) }

describe('A run that asks', () => {
  const withFile = (t: Test, isKept: boolean) => {
    const renewed: number[] = []
    const { engine, store } = memory()
    const work = defineTask({
      name: 'work',
      asks,
      external: {
        of: () => 'a file',
        release: () => undefined,
        renew: (_name, ttlMs) => {
          renewed.push(ttlMs)
          return isKept
        },
      },
      run: async (_input: object, { ask }) => ask('go', { message: 'Go?', timeoutMs: 100 * HOUR }),
    })
    const tasks = createTasks({ engine, store, definitions: [work], pendingMs: 10 * HOUR, retentionMs: HOUR })
    t.after(() => tasks.close({ drainMs: 0 }))
    return { tasks, work, renewed, engine }
  }

  test('keeps its external resource while the task waits', async (t) => {
    const { tasks, work, renewed, engine } = withFile(t, true)
    const { taskId } = await tasks.submit(work, {})
    await eventually(async () => (await tasks.get(taskId))?.status === 'input_required')
    assert.ok((renewed[0] ?? 0) >= 111 * HOUR, String(renewed[0]))
    const stored = await engine.read(taskId)
    assert.ok((stored?.expiresAt ?? 0) - Date.now() > 109 * HOUR, 'the task expires before the time to answer is over')
  })

  test('fails if its external resource no longer exists', async (t) => {
    const { tasks, work } = withFile(t, false)
    const end = await (await tasks.submit(work, {})).wait({ timeoutMs: 60_000 })
    assert.equal(end?.status === 'failed' && end.error.code, 'gone')
  })

  test('has asked even if the reply of the engine is lost', async (t) => {
    let runs = 0
    const work = defineTask({
      name: 'work', asks, run: async (_input: object, { ask, progress }) => {
        runs++
        progress(1, 2)
        return ask('go', { message: 'Go?' })
      },
    })
    const { tasks, spy, engine, heard, close } = bench({ definitions: [work], progressIntervalMs: HOUR })
    t.after(close)
    const { taskId } = await tasks.submit(work, {})
    let changes = 0
    spy.fault = (call) => (call.startsWith('change') && ++changes === 2 ? 'after' : undefined)
    await eventually(async () => (await engine.read(taskId))?.status === 'input_required')
    await eventually(async () => (await tasks.health()).running === 0)
    spy.fault = () => undefined
    assert.equal(changes, 3, 'the question was not sent again')
    await tasks.answer(taskId, { go: true })
    await eventually(async () => (await tasks.get(taskId))?.status === 'completed')
    const task = await tasks.get(taskId)
    assert.deepEqual([task?.result, task?.progress, runs, heard], [true, { done: 1, total: 2 }, 2, []])
  })
})

test('testContext returns the given answers, and records the questions', async () => {
  const work = defineTask({ name: 'work', asks, run: async (_input: object, { ask }) => ask('go', { message: 'Go?' }) })
  const context = testContext(work, { answers: { go: true } })
  assert.equal(await work.run({}, context), true)
  assert.deepEqual(context.asked, [{ key: 'go', message: 'Go?' }])
  await assert.rejects(async () => work.run({}, testContext(work)), /pass an answer in the option answers/)
  await assert.rejects(async () => work.run({}, testContext(work, { answers: { go: 1 } })), { code: 'invalid_input' })
})
