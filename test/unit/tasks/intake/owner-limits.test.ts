import assert from 'node:assert/strict'
import { describe, test } from 'node:test'
import { defineTask } from '../../../../src/tasks/definition/define.js'
import { type HttpError } from '../../../../src/http/errors.js'
import { bench, ended } from '../../kit/tasks.js'
import { deferred } from '../../../kit/wait.js'

function limited(maxPerOwner: number, run: () => unknown = () => undefined) {
  const gate = deferred()
  return {
    gate,
    work: defineTask({
      name: 'limited',
      maxPerOwner,
      run: async () => {
        await gate.promise
        return run()
      },
    }),
  }
}

describe('maxPerOwner', () => {
  test('accepts as many of 20 concurrent submissions as its value, and the others get a 429', async (t) => {
    const { gate, work } = limited(3)
    const { tasks, close } = bench({ definitions: [work] })
    t.after(close)
    const outcomes = await Promise.all(
      Array.from({ length: 20 }, () =>
        tasks.submit(work, 1, { owner: 'ann' }).then(
          () => 'taken',
          (error: HttpError) => `${String(error.status)} ${error.code} ${String(error.headers['retry-after'])}`,
        ),
      ),
    )
    assert.deepEqual([...new Set(outcomes)].sort(), ['429 too_many_tasks 5', 'taken'])
    assert.equal(outcomes.filter((outcome) => outcome === 'taken').length, 3)
    for (let n = 0; n < 5; n++) await tasks.submit(work, 1)
    await tasks.submit(work, 1, { owner: 'bob' })
    await tasks.submit(work, 1, { owner: `long ${'é'.repeat(500)}` })
    gate.resolve()
  })

  for (const [how, run] of [['completes', () => 1], ['fails', () => { throw new Error('x') }]] as const) {
    test(`counts no task that ${how}`, async (t) => {
      const { gate, work } = limited(1, run)
      const { tasks, close } = bench({ definitions: [work] })
      t.after(close)
      const { taskId: id } = await tasks.submit(work, 1, { owner: 'ann' })
      await assert.rejects(tasks.submit(work, 1, { owner: 'ann' }), { code: 'too_many_tasks' })
      gate.resolve()
      await ended(tasks, id)
      await tasks.submit(work, 1, { owner: 'ann' })
    })
  }

  test('counts neither cancelled tasks nor tasks whose write failed', async (t) => {
    const { gate, work } = limited(1)
    const { tasks, close, spy } = bench({ definitions: [work] })
    t.after(close)
    const { taskId: id } = await tasks.submit(work, 1, { owner: 'ann' })
    await tasks.cancel(id)
    spy.fault = (call) => (call.startsWith('create') ? 'before' : undefined)
    await assert.rejects(tasks.submit(work, 1, { owner: 'ann' }), { name: 'StoreUnavailableError' })
    spy.fault = () => undefined
    await tasks.submit(work, 1, { owner: 'ann' })
    await assert.rejects(tasks.submit(work, 1, { owner: 'ann' }), { code: 'too_many_tasks' })
    gate.resolve()
  })

  test('counts a second submit with one id only once', async (t) => {
    const { gate, work } = limited(2)
    const { tasks, close, engine } = bench({ definitions: [work] })
    t.after(close)
    const first = await tasks.submit(work, 1, { owner: 'ann' })
    await tasks.submit(work, 1, { owner: 'ann', id: 'second' })
    assert.equal((await tasks.submit(work, 1, { owner: 'ann', id: 'second' })).created, false)
    await tasks.cancel(first.taskId)
    await Promise.all(Array.from({ length: 5 }, () => tasks.submit(work, 1, { owner: 'ann', id: 'second' })))
    await tasks.submit(work, 1, { owner: 'ann' })
    await assert.rejects(tasks.submit(work, 1, { owner: 'ann' }), { code: 'too_many_tasks' })
    assert.equal(engine.usage().unfinished, 2)
    gate.resolve()
    await ended(tasks, 'second')
  })

  test('does not reject a submit with the id of a final task, which returns the task', async (t) => {
    const { gate, work } = limited(1)
    const { tasks, close } = bench({ definitions: [work] })
    t.after(close)
    await tasks.submit(work, 1, { owner: 'ann', id: 'old' })
    await tasks.cancel('old')
    await tasks.submit(work, 1, { owner: 'ann', id: 'new' })
    assert.equal((await tasks.submit(work, 1, { owner: 'ann', id: 'old' })).created, false)
    gate.resolve()
  })

  test('counts concurrent submits with one id once', async (t) => {
    const { gate, work } = limited(3)
    const { tasks, close, engine } = bench({ definitions: [work] })
    t.after(close)
    await Promise.all(Array.from({ length: 10 }, () => tasks.submit(work, 1, { owner: 'ann', id: 'one' })))
    await tasks.submit(work, 1, { owner: 'ann' })
    await tasks.submit(work, 1, { owner: 'ann' })
    await assert.rejects(tasks.submit(work, 1, { owner: 'ann' }), { code: 'too_many_tasks' })
    assert.equal(engine.usage().unfinished, 3)
    gate.resolve()
  })

})
