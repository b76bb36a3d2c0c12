import assert from 'node:assert/strict'
import type { Cases } from '../runner.js'
import { together } from '../wait.js'
import { assertWhole, COUNTED } from './whole.js'
import { HOUR, taskOf, untilOpened, type EngineContext, type OpenTransaction } from './context.js'

const DAY = 24 * HOUR
const limit = { group: '', max: 1 }

/** Tests of `create`, ids and keys. */
export const createCases: Cases<EngineContext> = {
  'a created task has all its properties, and every process reads it by id and key': async (context) => {
    const { engine } = context
    const other = (await context.open()).engine
    const before = await engine.now()
    const task = context.task({
      id: 'A-z.0_9', key: 'POST /reports é "key"', owner: 'ann', caller: 'user:ann', name: 'import',
      pool: 'heavy', priority: 7, details: { a: [1, null, { b: 'é\u0000' }], z: -1.5e-9 },
    })
    const created = taskOf(await engine.create(task))
    const after = await engine.now()
    assert.ok(created.createdAt >= before && created.createdAt <= after, 'createdAt is wrong')
    assert.deepEqual(created, {
      id: task.id, birth: task.birth, key: task.key, owner: 'ann', caller: 'user:ann', name: 'import',
      pool: 'heavy', priority: 7, status: 'queued', version: 1, run: 0, attempt: 0, crashes: 0,
      createdAt: created.createdAt, startAt: undefined, startedAt: undefined, runStartedAt: undefined,
      finishedAt: undefined, expiresAt: created.createdAt + HOUR, callbackRun: 0,
      callbackAt: undefined, details: task.details, result: undefined,
    })
    for (const each of [engine, other]) {
      assert.deepEqual(await each.read(task.id), created)
      assert.deepEqual(await each.readByKey(task.key as string), created)
      assert.equal(await each.read('never-was'), undefined)
      assert.equal(await each.readByKey('never was'), undefined)
    }
  },

  'a repeated call gets the current task': async (context) => {
    const other = (await context.open()).engine
    const task = context.task({ id: 'one', key: 'key', caller: 'ann', limit: COUNTED })
    const first = taskOf(await context.engine.create(task))
    const again = await other.create(task)
    assert.deepEqual(again, { outcome: 'created', task: first })
    const cancelled = await context.changed(first, { version: 1 }, { status: 'cancelled' })
    const late = await other.create(task)
    assert.deepEqual(late, { outcome: 'created', task: cancelled })
    assert.deepEqual(await assertWhole(context, other, ['ann']), [cancelled])
  },

  'an id or a key in use gives `exists`, and nothing is created': async (context) => {
    const other = (await context.open()).engine
    const task = await context.created({ id: 'one', key: 'first' })
    for (const [id, key] of [['one', 'second'], ['two', 'first']] as const) {
      assert.deepEqual(await other.create(context.task({ id, key })), { outcome: 'exists', task })
    }
    assert.equal(await other.readByKey('second'), undefined)
    assert.equal(await other.read('two'), undefined)
    assert.deepEqual(await context.listed({}, other), [task])
  },

  'ids and keys are compared exactly, and no text is special': async (context) => {
    const ids = ['a', 'A', '-', '_', '.', '..', '__proto__', 'constructor', '0', '00', 'x'.repeat(128)]
    for (const id of ids) await context.created({ id })
    for (const id of ids) assert.equal((await context.stored(id)).id, id)
    assert.deepEqual((await context.ids()).sort(), ids.sort())
    const keys = ['k', 'K', 'k ', ' k', 'k\n', 'é', 'e\u0301', '%', '_', 'k:', 'x'.repeat(512), '😀', '{k}', "'"]
    for (const [n, key] of keys.entries()) await context.created({ id: `task-${String(n)}`, key })
    for (const [n, key] of keys.entries()) {
      assert.equal((await context.engine.readByKey(key))?.id, `task-${String(n)}`, JSON.stringify(key))
    }
  },

  'an owner and a key of 512 characters of any script are kept': async (context) => {
    const other = (await context.open()).engine
    for (const [n, first] of ['a', '\u6771', '\u{1f600}'].entries()) {
      const owner = longName(first)
      const key = longName(first)
      const caller = `owner ${owner}`
      const task = await context.created({ id: `long-${n}`, key, owner, caller, limit: COUNTED })
      assert.deepEqual([task.key, task.owner, task.caller], [key, owner, caller])
      assert.deepEqual(await other.readByKey(key), task)
      assert.deepEqual(await context.listed({ of: { owner } }, other), [task])
    }
  },

  'a name that an engine cannot keep rejects its own call with a TypeError': async (context) => {
    const faults = ['', 'x'.repeat(600), 'a\0b', '\ud800', 'b\udc00']
    const names = faults.flatMap((name) => [{ owner: name }, { key: name }, { caller: name }])
    const outcomes = await Promise.allSettled(names.flatMap((bad, n) => [
      (async () => context.engine.create(context.task({ ...bad, id: `bad-${n}` })))(),
      (async () => context.engine.create(context.task({ id: `good-${n}` })))(),
    ]))
    for (const [n, outcome] of outcomes.entries()) {
      const { [n >> 1]: bad } = names
      if (n % 2 === 1) assert.equal(outcome.status, 'fulfilled', `the call beside ${JSON.stringify(bad)}`)
      else assert.ok(outcome.status === 'rejected' && outcome.reason instanceof TypeError, JSON.stringify(bad))
    }
    assert.equal((await context.ids()).filter((id) => id.startsWith('bad')).length, 0)
  },

  'one of many concurrent calls with one id or key creates the task, and all get it': async (context) => {
    const side = await context.sides()
    for (const [id, key] of [[undefined, 'key'], ['one', undefined]]) {
      const outcomes = await together(20, (n) => (
        side(n).create(context.task({ id: id ?? `task-${String(n)}`, key: key ?? `key-${String(n % 5)}` }))
      ))
      const winner = outcomes.find(({ outcome }) => outcome === 'created')
      assert.ok(winner, 'no call created')
      const exists = { outcome: 'exists', task: taskOf(winner) }
      assert.deepEqual(outcomes.filter((outcome) => outcome !== winner), Array.from({ length: 19 }, () => exists))
    }
    const tasks = await context.listed()
    assert.equal(tasks.length, 2)
    for (let n = 0; n < 5; n++) {
      const key = `key-${String(n)}`
      assert.deepEqual(await context.engine.readByKey(key), tasks.find((task) => task.key === key))
    }
  },

  'concurrent repetitions of one call create one task, and all get it': async (context) => {
    const side = await context.sides()
    const task = context.task({ id: 'one', key: 'key', caller: 'ann', limit })
    const outcomes = await together(12, (n) => side(n).create(task))
    for (const outcome of outcomes) assert.equal(outcome.outcome, 'created')
    assert.deepEqual(await context.ids(), ['one'])
  },

  'a key is in use as long as its task exists, in any status': async (context) => {
    const other = (await context.open()).engine
    const exists = async (): Promise<void> => {
      const outcome = await other.create(context.task({ id: 'another', key: 'key' }))
      assert.equal(outcome.outcome, 'exists')
      assert.equal(taskOf(outcome).id, 'one')
    }
    const task = await context.created({ id: 'one', key: 'key' })
    await exists()
    const worker = context.work({ run: untilOpened })
    let { version } = task
    for (const [n, status] of ['failed', 'completed'].entries()) {
      const begun = await worker.ran('one', n + 1)
      await exists()
      version = taskOf(await begun.end({ status: status as 'failed' })).version
      await exists()
      if (status === 'failed') await context.changed(task, { version }, { status: 'queued' })
      await exists()
    }
    assert.equal(await context.engine.delete(task, version), undefined)
    assert.equal(await other.readByKey('key'), undefined)
    await context.created({ id: 'another', key: 'key' })
  },

  'the key of a task that starts in 30 days lives as long as the task': async (context) => {
    const now = await context.engine.now()
    const start = { at: now + 30 * DAY }
    const task = await context.created({ id: 'later', key: 'key', start, keepMs: DAY })
    assert.equal(task.startAt, start.at)
    assert.equal(task.expiresAt, start.at + DAY)
    const after = await context.created({ id: 'delayed', start: { delayMs: 30 * DAY }, keepMs: DAY })
    assert.equal(after.startAt, after.createdAt + 30 * DAY)
    assert.equal(after.expiresAt, after.createdAt + 31 * DAY)
  },

  'a task with a start in the past starts now': async (context) => {
    const worker = context.work()
    const now = await context.engine.now()
    const past = await context.created({ id: 'past', start: { at: now - DAY } })
    const none = await context.created({ id: 'none', start: { delayMs: 0 } })
    for (const task of [past, none]) {
      assert.equal(task.startAt, undefined)
      assert.equal(task.expiresAt, task.createdAt + HOUR)
      await worker.ran(task.id)
    }
  },

  'a call with an old task never changes a new task with its id': async (context) => {
    const other = (await context.open()).engine
    const old = await context.created({ id: 'one', key: 'old', owner: 'ann', caller: 'ann' })
    const ended = await context.changed(old, { version: 1 }, { status: 'failed' })
    assert.equal(await context.engine.delete(old, ended.version), undefined)
    const fresh = await context.created({ id: 'one', key: 'new', owner: 'bob', details: { fresh: true } })
    for (const engine of [context.engine, other]) {
      for (const version of [1, 2]) {
        const change = { status: 'failed', details: {}, callbackMs: 0, keepMs: 0 } as const
        assert.equal(await context.conflict(old, { version }, change, engine), undefined)
        assert.equal(await engine.delete(old, version), undefined)
      }
      for (const expected of [{ lease: '0' }, { lease: '1' }, { callbackRun: 0 }]) {
        const change = { checkpoint: 'old', callbackMs: null }
        assert.equal(await context.conflict(old, expected, change, engine), undefined)
      }
      assert.deepEqual(await engine.read('one'), fresh)
      assert.deepEqual(await engine.readByKey('new'), fresh)
      assert.equal(await engine.readByKey('old'), undefined)
    }
    const worker = context.work()
    const { run } = await worker.ran('one')
    assert.deepEqual([run.task.birth, run.checkpoint], [fresh.birth, undefined])
  },
}

/**
 * Returns a name of 512 UTF-16 units that cannot be compressed. Its characters are similar to
 * `like`.
 */
function longName(like: string): string {
  const first = like.codePointAt(0) as number
  let name = ''
  while (name.length < 512) {
    name += String.fromCodePoint(first + Math.floor(Math.random() * (first < 128 ? 26 : 60)))
  }
  return name
}

async function begin(context: EngineContext): Promise<OpenTransaction> {
  const open = await context.fixture.begin?.()
  assert.ok(open, 'the fixture has no `begin`')
  return open
}

/** Tests of `create` in a transaction of the application. */
export const transactionCases: Cases<EngineContext> = {
  'a task exists and runs once its transaction is committed, and not before': async (context) => {
    const worker = context.work()
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

  'a task that is rolled back does not exist, and its key is free': async (context) => {
    const worker = context.work()
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

  'the transaction is still usable after the outcomes `exists` and `caller_full`': async (context) => {
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

  'two transactions with one key create one task': async (context) => {
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

  'an open transaction delays only calls with its caller, id or key': async (context) => {
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

  'an error of the client of a transaction rejects unchanged': async (context) => {
    const failure = new Error('fails, on purpose')
    const transaction = { query: () => Promise.reject(failure) }
    await assert.rejects(
      async () => context.engine.create(context.task({ id: 'one' }), { transaction }),
      (error) => error === failure,
    )
    assert.deepEqual(await context.ids(), [])
  },
}
