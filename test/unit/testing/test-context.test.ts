import assert from 'node:assert/strict'
import { test } from 'node:test'
import { defineTask } from '../../../src/index.js'
import { testContext } from '../../../src/testing/index.js'

const count = defineTask({
  name: 'count', attempts: 3,
  run: (_, { progress, signal, attempt, lastAttempt, taskId, owner }) => {
    progress(1, 2)
    progress(2, 2, 'there')
    signal.throwIfAborted()
    return { attempt, lastAttempt, taskId, owner }
  },
})

test('testContext records progress', async () => {
  const context = testContext(count)
  const result = await count.run({}, context)
  assert.deepEqual(result, { attempt: 1, lastAttempt: false, taskId: 'test', owner: undefined })
  assert.deepEqual(context.reports, [
    { done: 1, total: 2, message: undefined }, { done: 2, total: 2, message: 'there' },
  ])
})

test('testContext knows the last attempt of its definition', () => {
  const { attempt, lastAttempt, owner } = testContext(count, { attempt: 3, owner: 'ann' })
  assert.deepEqual({ attempt, lastAttempt, owner }, { attempt: 3, lastAttempt: true, owner: 'ann' })
})

test('testContext has no task id for a synchronous request, if a test says so', () => {
  assert.equal(testContext(count, { taskId: undefined }).taskId, undefined)
})

test('a test context aborts the work with a reason', () => {
  const context = testContext(count)
  context.abort(new Error('cancelled'))
  assert.throws(() => count.run({}, context), /cancelled/)
})

test('testContext rejects an attempt that the definition does not have', () => {
  for (const attempt of [0, 4, 1.5])
    assert.throws(
      () => testContext(count, { attempt }),
      /attempt must be (a whole number from 1|from 1 to 3, the attempts of count)/,
    )
})

test('testContext rejects a value that defineTask has not made', () => {
  assert.throws(() => (testContext as (made: unknown) => unknown)({ run: () => 1 }), {
    name: 'TypeError',
    message: 'testContext: pass what defineTask made',
  })
})

test('testContext rejects files.write without files: true, as a task does', async () => {
  const writer = defineTask({ name: 'writer', run: async (_, { files }) => { await files.write('a', 'b') } })
  await assert.rejects(async () => writer.run({}, testContext(writer)), {
    name: 'TypeError',
    message: 'files.write: set files: true in the options of defineTask',
  })
})
