import assert from 'node:assert/strict'
import type { Cases } from '../runner.js'
import { taskOf, type EngineContext } from './context.js'
import type { OpenTransaction } from './fixture.js'

const limit = { group: '', max: 1 }

async function begin(context: EngineContext): Promise<OpenTransaction> {
  const open = await context.fixture.begin?.()
  assert.ok(open, 'the fixture has no `begin`')
  return open
}

/** Tests of `create` in a transaction of the application. */
export const transactionCases: Cases<EngineContext> = {
  'a task that is committed is there and runs, and not before': async (context) => {
    const worker = context.work(context.first)
    const open = await begin(context)
    const task = context.task({ id: 'one', key: 'key', owner: 'ann', caller: 'ann', limit })
    const created = await context.engine.create(task, { transaction: open.transaction })
    assert.deepEqual([created.outcome, taskOf(created).status], ['created', 'queued'])
    assert.equal(await context.engine.read('one'), undefined)
    assert.deepEqual(await context.ids(), [])
    await context.quiet()
    assert.deepEqual(worker.ids, [])
    await open.commit()
    await worker.ran('one')
    assert.equal((await context.reaches('one', 'completed')).key, 'key')
  },

  'a task that is rolled back never was': async (context) => {
    const worker = context.work(context.first)
    const open = await begin(context)
    const task = context.task({ id: 'one', key: 'key', caller: 'ann', limit })
    await context.engine.create(task, { transaction: open.transaction })
    await open.rollback()
    assert.equal(await context.engine.readByKey('key'), undefined)
    await context.created({ id: 'two', key: 'key', caller: 'ann', limit })
    await worker.ran('two')
    await context.quiet()
    assert.deepEqual(worker.ids, ['two'])
  },

  'what exists, and a full caller, are outcomes that leave the transaction usable': async (context) => {
    const first = await context.created({ id: 'one', key: 'key', caller: 'ann', limit, pool: 'nobody' })
    const open = await begin(context)
    const { transaction } = open
    const again = context.task({ id: 'two', key: 'key', caller: 'ann', limit, pool: 'nobody' })
    assert.deepEqual(await context.engine.create(again, { transaction }), { outcome: 'exists', task: first })
    const full = context.task({ id: 'three', caller: 'ann', limit, pool: 'nobody' })
    assert.deepEqual(await context.engine.create(full, { transaction }), { outcome: 'caller_full' })
    const bob = context.task({ id: 'four', caller: 'bob', limit, pool: 'nobody' })
    assert.equal((await context.engine.create(bob, { transaction })).outcome, 'created')
    assert.equal((await context.engine.create(bob, { transaction })).outcome, 'created')
    await open.commit()
    assert.deepEqual((await context.ids()).sort(), ['four', 'one'])
  },

  'a key that another transaction holds makes one task in the end': async (context) => {
    for (const end of ['commit', 'rollback'] as const) {
      const open = await begin(context)
      const first = context.task({ id: `first-${end}`, key: end, pool: 'nobody' })
      await context.engine.create(first, { transaction: open.transaction })
      const second = context.engine.create(context.task({ id: `second-${end}`, key: end, pool: 'nobody' }))
      await context.quiet()
      await open[end]()
      const outcome = await context.soon(second, 'the second create resolves')
      assert.equal(outcome.outcome, end === 'commit' ? 'exists' : 'created')
      assert.equal((await context.ids()).filter((id) => id.endsWith(end)).length, 1)
    }
  },

  'a transaction that is open delays only what waits for its caller, id or key': async (context) => {
    const open = await begin(context)
    const first = { id: 'one', key: 'key', caller: 'ann', limit, pool: 'nobody' }
    await context.engine.create(context.task(first), { transaction: open.transaction })
    const waiting = Promise.allSettled([
      { id: 'two', caller: 'ann', limit }, { id: 'three', key: 'key' }, { id: 'one' },
    ].map(async (task) => context.engine.create(context.task({ ...task, pool: 'nobody' }))))
    try {
      for (const caller of ['bob', 'cid']) {
        await context.created({ id: caller, key: caller, caller, limit, pool: 'nobody' })
      }
    } finally {
      await open.rollback()
    }
    await context.soon(waiting, 'the other calls settle')
  },

  'an error of the client rejects as it is': async (context) => {
    const failure = new Error('fails, on purpose')
    const transaction = { query: () => Promise.reject(failure) }
    await assert.rejects(
      async () => context.engine.create(context.task({ id: 'one' }), { transaction }),
      (error) => error === failure,
    )
    assert.deepEqual(await context.ids(), [])
  },
}
