// Issue 15, C14: an owner that is missing never means all tasks.
import assert from 'node:assert/strict'
import { describe, test, type TestContext } from 'node:test'
import { defineTask } from '../../../src/tasks/definition/define.js'
import type { TasksOptions } from '../../../src/tasks/core/tasks-options.js'
import { bench, type Bench } from '../kit/tasks.js'

const echo = defineTask({ name: 'echo', run: (input: unknown) => ({ message: 'done', input }) })
const few = defineTask({ name: 'few', maxPerOwner: 1, run: () => ({ message: 'done' }) })

function use(t: TestContext, options: Partial<TasksOptions> = {}): Bench {
  const made = bench({ definitions: [echo, few], worker: false, ...options })
  t.after(made.close)
  return made
}

describe('tasks.ownedBy', () => {
  test('shows, cancels and deletes only the tasks of this owner, and undefined is an anonymous client', async (t) => {
    const { tasks } = use(t)
    const ids = {
      ann: (await tasks.ownedBy('ann').submit(echo, 1)).taskId,
      nobody: (await tasks.ownedBy(undefined).submit(echo, 1)).taskId,
      host: (await tasks.submit(echo, 1)).taskId,
    }
    const sees = async (owner: string | undefined, id: string) => (await tasks.ownedBy(owner).get(id))?.taskId === id
    assert.deepEqual(await Promise.all(Object.values(ids).map((id) => sees('ann', id))), [true, false, false])
    assert.deepEqual(await Promise.all(Object.values(ids).map((id) => sees('bob', id))), [false, false, false])
    assert.deepEqual(await Promise.all(Object.values(ids).map((id) => sees(undefined, id))), [false, true, true])
    for (const owner of ['bob', undefined]) {
      const mine = tasks.ownedBy(owner)
      assert.equal(await mine.wait(ids.ann, { timeoutMs: 0 }), undefined)
      assert.equal(await mine.cancel(ids.ann), undefined)
    }
    assert.equal((await tasks.get(ids.ann))?.status, 'queued', 'somebody else has cancelled it')
    assert.equal((await tasks.ownedBy('ann').wait(ids.ann, { timeoutMs: 0 }))?.taskId, ids.ann)
    assert.equal((await tasks.ownedBy('ann').cancel(ids.ann))?.status, 'cancelled')
    for (const owner of ['bob', undefined]) assert.equal(await tasks.ownedBy(owner).delete(ids.ann), false)
    assert.equal(await tasks.ownedBy('ann').delete(ids.ann), true)
  })

  test('is not needed for calls that see the tasks of all owners', async (t) => {
    const { tasks } = use(t)
    const { taskId: id } = await tasks.submit(echo, 1, { owner: 'ann' })
    assert.equal((await tasks.get(id))?.taskId, id)
    assert.equal((await tasks.wait(id, { timeoutMs: 0 }))?.taskId, id)
    assert.equal((await tasks.cancel(id))?.status, 'cancelled')
    assert.equal(await tasks.delete(id), true)
  })

  test('ends a wait if the id belongs to another task', async (t) => {
    const { tasks } = use(t)
    await tasks.submit(echo, 1, { owner: 'ann', id: 'mine' })
    const waiting = tasks.ownedBy('ann').wait('mine', { timeoutMs: 10_000 })
    await tasks.cancel('mine')
    await tasks.delete('mine')
    await tasks.submit(echo, 1, { owner: 'bob', id: 'mine' })
    const seen = await waiting
    assert.ok(seen === undefined || seen.status === 'cancelled')
  })
})

describe('an invalid owner is rejected', () => {
  const WRONG: readonly (readonly [unknown, RegExp])[] = [
    ['', /empty/], [5, /a number: write String\(id\)/], [5n, /a bigint/], [null, /null: write undefined/],
    [{}, /type object/], [true, /type boolean/], [Promise.resolve('ann'), /a promise: find the owner before/],
  ]
  for (const [wrong, message] of WRONG) {
    test(`if it is the ${typeof wrong} ${String(wrong)}`, async (t) => {
      const { tasks, spy } = use(t)
      assert.throws(() => tasks.ownedBy(wrong as never), { name: 'TypeError', message })
      await assert.rejects(tasks.submit(echo, 1, { owner: wrong as never }), { name: 'TypeError', message })
      assert.deepEqual(spy.writes, [])
    })
  }

  test('if the application submits with undefined, because it may mean a client who is not signed in', async (t) => {
    const { tasks, spy } = use(t)
    await assert.rejects(tasks.submit(echo, 1, { owner: undefined } as never), /tasks\.ownedBy\(user\?\.id\)\.submit/)
    assert.deepEqual(spy.writes, [])
  })

  test('if get, wait and cancel would otherwise ignore it', async (t) => {
    const { tasks } = use(t)
    const { taskId: id } = await tasks.submit(echo, 1, { owner: 'ann' })
    for (const owner of [undefined, null, 'bob', 'ann']) {
      await assert.rejects(tasks.get(id, { owner } as never), /tasks\.ownedBy\(owner\)\.get/)
      await assert.rejects(tasks.wait(id, { timeoutMs: 0, owner } as never), /tasks\.ownedBy\(owner\)\.wait/)
      await assert.rejects(tasks.cancel(...[id, { owner }] as unknown as [string]), /tasks\.ownedBy\(owner\)\.cancel/)
    }
  })
})

test('maxPerOwner counts each owner, all anonymous clients of ownedBy together, and no tasks of the application', async (t) => {
  const { tasks } = use(t)
  for (const owner of ['ann', 'bob', undefined]) {
    await tasks.ownedBy(owner).submit(few, 1)
    await assert.rejects(tasks.ownedBy(owner).submit(few, 1), { code: 'too_many_tasks' })
  }
  await assert.rejects(tasks.submit(few, 1, { owner: 'ann' }), { code: 'too_many_tasks' })
  await tasks.ownedBy('address unknown').submit(few, 1)
  await tasks.submit(few, 1)
  await tasks.submit(few, 1)
})
