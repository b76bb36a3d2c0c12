import assert from 'node:assert/strict'
import { test } from 'node:test'
import { memory } from '../../../../adapters/memory/index.js'
import { defineTask } from '../../../../src/tasks/definition/define.js'
import { createTasks } from '../../../../src/tasks/tasks.js'
import { ended } from '../kit.js'

test('a shutdown that begins while a task is accepted or retried is a 503 shutting_down, and leaves nothing', async (t) => {
  let isBroken = true
  const work = defineTask({ name: 'work', run: () => { if (isBroken) throw new Error('broken') } })
  const { store, queue, index } = memory()
  t.after(() => store.close())
  const tasks = createTasks({ store, queue, index, definitions: [work], onError: () => undefined })
  const { taskId } = await tasks.submit(work, {})
  const failed = await ended(tasks, taskId)
  isBroken = false

  const enqueue = queue.enqueue.bind(queue)
  t.mock.method(queue, 'enqueue', (...args: Parameters<typeof enqueue>) => {
    void queue.close()
    return enqueue(...args)
  })
  await assert.rejects(tasks.submit(work, {}, { id: 'late' }), { status: 503, code: 'shutting_down', headers: { 'retry-after': '5' } })
  assert.equal(await tasks.get('late'), undefined)
  await assert.rejects(tasks.retry(taskId), { status: 503, code: 'shutting_down' })
  assert.deepEqual(await tasks.get(taskId), failed)
})
