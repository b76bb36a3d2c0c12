import assert from 'node:assert/strict'
import { test } from 'node:test'
import { defineTask } from '../../../../src/tasks/definition/define.js'
import { bench, ended } from '../../kit/tasks.js'

test('a shutdown that begins while a task is accepted or retried gets a 503 shutting_down, and leaves nothing', async (t) => {
  for (const what of ['submit', 'retry'] as const) {
    let isBroken = true
    let onRenew = () => undefined as unknown
    const work = defineTask({
      name: 'work',
      run: () => {
        if (isBroken) throw new Error('broken')
      },
      // Called while a task for later is accepted, and while one is retried.
      external: {
        of: () => 'file',
        release: () => undefined,
        renew: () => {
          onRenew()
          return true
        },
      },
    })
    const { tasks, engine, close } = bench({ definitions: [work] })
    t.after(close)
    const { taskId } = await tasks.submit(work, {})
    const failed = await ended(tasks, taskId)
    isBroken = false

    onRenew = () => tasks.close({ drainMs: 0 })
    const made = what === 'submit' ? tasks.submit(work, {}, { id: 'late', delayMs: 60_000 }) : tasks.retry(taskId)
    await assert.rejects(made, { status: 503, code: 'shutting_down', headers: { 'retry-after': '5' } })
    assert.equal(await tasks.get('late'), undefined)
    assert.deepEqual(await tasks.get(taskId), failed)
    assert.equal(engine.usage().unfinished, 0)
  }
})
