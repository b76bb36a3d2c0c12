import assert from 'node:assert/strict'
import type { NewTask } from '../../src/engine/task.js'
import { Json } from '../../src/runtime/json.js'
import type { Cases } from '../runner.js'
import { together } from '../wait.js'
import { HOUR, taskOf, untilOpened, type EngineContext } from './context.js'

const pool = 'nobody'
const unique = { key: 'invoice-42', ifExists: 'return' } as const
const replacing = { key: 'invoice-42', ifExists: 'replace' } as const

/** Tests of business keys. */
export const uniqueCases: Cases<EngineContext> = {
  'a call with the business key of an unfinished task returns this task, and nothing is created': async (context) => {
    const other = (await context.open()).engine
    const first = await context.created({ id: 'one', pool, unique })
    const again = await other.create(context.task({ id: 'two', key: 'key', pool, unique, details: { n: 2 } }))
    assert.deepEqual(again, { outcome: 'exists', task: first })
    await context.absent('two', 'key', other)
    await context.created({ id: 'three', pool, unique: { ...unique, key: 'invoice-43' } })
    await context.created({ id: 'four', pool })
  },

  'concurrent calls with one business key make one task, and do not disturb others': async (context) => {
    const side = await context.sides()
    const created = await together(24, (n) => side(n).create(context.task({
      id: `task-${String(n)}`, pool, ...n % 3 > 0 && { unique },
    })))
    const outcomes = created.map(({ outcome }) => outcome)
    assert.equal(outcomes.filter((outcome) => outcome === 'created').length, 9)
    const [first] = created.filter(({ outcome }) => outcome === 'exists').map(taskOf)
    for (const each of created) if (each.outcome === 'exists') assert.equal(each.task.id, first?.id)
  },

  'a repeated call gets the outcome of the first call': async (context) => {
    const task = context.task({ id: 'one', pool, unique: replacing })
    const [first, again] = [await context.engine.create(task), await context.engine.create(task)]
    assert.deepEqual([first.outcome, again.outcome], ['created', 'created'])
    assert.deepEqual(taskOf(first), taskOf(again))
  },

  'a final task loses its business key, and a retry does not get it back': async (context) => {
    for (const status of ['completed', 'failed', 'cancelled'] as const) {
      const task = await context.created({ id: status, pool, unique })
      await context.changed(task, { version: 1 }, { status })
    }
    const next = await context.created({ id: 'next', pool, unique })
    const failed = await context.stored('failed')
    await context.changed(failed, { version: failed.version }, { status: 'queued', pool })
    const again = await context.engine.create(context.task({ id: 'again', unique }))
    assert.equal(taskOf(again).id, next.id)
    await context.changed(await context.stored('failed'), { version: failed.version + 1 }, { status: 'failed' })
    const still = await context.engine.create(context.task({ id: 'still', unique }))
    assert.deepEqual([still.outcome, taskOf(still).id], ['exists', next.id])
  },

  'an expired task loses its business key': async (context) => {
    const task = await context.created({ id: 'one', pool, unique, keepMs: 1 })
    await context.past(task.expiresAt)
    await context.created({ id: 'two', pool, unique })
  },

  'a running task is returned for its business key, whatever ifExists says': async (context) => {
    const { begun } = await context.running({ id: 'one', unique })
    const again = await context.engine.create(context.task({ id: 'two', unique: replacing, details: {} }))
    assert.deepEqual(again, { outcome: 'exists', task: await context.stored('one') })
    await begun.end({ status: 'queued', delayMs: HOUR })
    const waits = await context.engine.create(context.task({ id: 'two', unique: replacing, details: {} }))
    assert.deepEqual(waits, { outcome: 'exists', task: await context.stored('one') })
  },

  'a task that has never begun gets the work of the task that replaces it, and runs once with it': async (context) => {
    const other = (await context.open()).engine
    const first = await context.created({
      id: 'one', key: 'key', owner: 'ann', caller: 'ann', unique: replacing, start: { delayMs: HOUR },
    })
    const last = context.task({
      id: 'two', owner: 'ann', caller: 'ann', unique: replacing, input: Json.of({ last: true }),
      details: { last: true }, priority: 3, keepMs: 5000, start: { delayMs: HOUR },
    })
    const replaced = await other.create(last)
    assert.equal(replaced.outcome, 'replaced')
    const task = taskOf(replaced)
    assert.deepEqual(task, {
      ...first, version: 2, priority: 3, details: { last: true }, startAt: task.startAt,
      expiresAt: (task.startAt ?? 0) + 5000,
    })
    assert.ok((task.startAt ?? 0) >= (first.startAt ?? 0), 'the start is not that of the new task')
    assert.deepEqual(await context.engine.readByKey('key'), task)
    assert.equal(await context.engine.read('two'), undefined)
    const worker = context.work({}, await context.open())
    assert.equal((await context.engine.create({ ...last, start: undefined })).outcome, 'replaced')
    const begun = await worker.ran('one')
    assert.deepEqual(begun.run.input.value, { last: true })
    await context.reaches('one', 'completed')
    assert.equal(worker.begun.length, 1)
  },

  'a waiting task that is replaced by one with a later start does not begin now': async (context) => {
    await context.created({ id: 'one', unique })
    const later = context.task({ id: 'two', unique: replacing, start: { delayMs: HOUR } })
    assert.equal((await context.engine.create(later)).outcome, 'replaced')
    assert.deepEqual(await context.ids({ statuses: ['scheduled'] }), ['one'])
    const worker = context.work()
    await context.created({ id: 'other' })
    await worker.ran('other')
    await context.quiet()
    assert.deepEqual(worker.ids, ['other'])
    const { waiting, delayed } = await context.engine.counts('default')
    assert.deepEqual([waiting, delayed], [0, 1])
  },

  'a task moves to the pool and the priority of the task that replaces it': async (context) => {
    const worker = context.work({ places: { default: 1, other: 1 }, run: untilOpened })
    for (const id of ['holds', 'low']) await context.created({ id, priority: id === 'low' ? 9 : 0 })
    const holds = await worker.ran('holds')
    await context.created({ id: 'one', priority: 20, unique })
    assert.equal((await context.engine.create(context.task({ id: 'two', priority: 1, unique: replacing }))).outcome, 'replaced')
    await holds.end({ status: 'completed' })
    await worker.began(2)
    assert.equal(worker.ids[1], 'one')
    await context.created({ id: 'moves', pool, unique: { ...unique, key: 'moves' } })
    const moved = context.task({ id: 'again', pool: 'other', unique: { ...replacing, key: 'moves' } })
    assert.equal((await context.engine.create(moved)).outcome, 'replaced')
    await worker.ran('moves')
  },

  'a caller over its limit gets and replaces the task of its business key': async (context) => {
    const limit = { group: 'report', max: 1 }
    const task = (id: string, more: Partial<NewTask> = {}): NewTask => (
      context.task({ id, pool, caller: 'ann', limit, ...more })
    )
    await context.created({ id: 'one', pool, caller: 'ann', limit, unique })
    assert.equal((await context.engine.create(task('two'))).outcome, 'caller_full')
    assert.equal((await context.engine.create(task('two', { unique }))).outcome, 'exists')
    assert.equal((await context.engine.create(task('two', { unique: replacing }))).outcome, 'replaced')
    assert.equal((await context.engine.create(task('two'))).outcome, 'caller_full')
  },

  'a business key that an engine cannot keep is rejected': async (context) => {
    for (const key of ['', 'x'.repeat(513), 'a\0b', '\ud800']) {
      await assert.rejects(
        async () => context.engine.create(context.task({ id: 'one', unique: { ...unique, key } })), TypeError,
      )
    }
    assert.equal(await context.engine.read('one'), undefined)
  },
}
