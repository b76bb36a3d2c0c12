import assert from 'node:assert/strict'
import { describe, test } from 'node:test'
import fc from 'fast-check'
import { MemoryTaskIndex } from '../../../adapters/memory/index.js'
import {
  comparePositions, LISTED_STATUSES, type ListedTask, type ListQuery,
} from '../../../src/stores/task-index.js'

/** The contract, as slow and obvious as can be: an array that is filtered and sorted. */
class Model {
  time = 1000
  tasks: (ListedTask & { readonly expiresAt: number })[] = []

  put(task: ListedTask): void {
    const before = this.tasks.find(({ id }) => id === task.id)
    const isSame = before?.createdAt === task.createdAt && before.owner === task.owner
    if (before && !isSame && before.createdAt > task.createdAt) return
    if (before && isSame && before.version > task.version) return
    const keeps = isSame && before?.version === task.version ? before.expiresAt : 0
    const expiresAt = Math.max(this.time + task.ttlMs, keeps)
    this.tasks = [...this.tasks.filter((each) => each !== before), { ...task, expiresAt }]
  }

  drop({ id, owner, createdAt }: ListedTask): void {
    this.tasks = this.tasks.filter((task) => (
      task.id !== id || task.owner !== owner || task.createdAt !== createdAt
    ))
  }

  list({ of, statuses, names, from = 0, to = Infinity, order, limit, after }: ListQuery): string[] {
    const sign = order === 'newest' ? -1 : 1
    return this.tasks
      .filter((task) => task.expiresAt > this.time && (of === 'all' || task.owner === of.owner))
      .filter(({ status }) => statuses?.includes(status) ?? true)
      .filter(({ name }) => names?.includes(name) ?? true)
      .filter(({ createdAt }) => createdAt >= from && createdAt < to)
      .filter((task) => !after || sign * comparePositions(task, after) > 0)
      .sort((one, other) => sign * comparePositions(one, other))
      .slice(0, limit)
      .map(({ id, status }) => `${id} ${status}`)
  }
}

const owner = fc.constantFrom('ann', 'bob', undefined)
const name = fc.constantFrom('report', 'import')
const status = fc.constantFrom(...LISTED_STATUSES)
const createdAt = fc.integer({ min: 1, max: 12 })
const id = fc.integer({ min: 10, max: 40 }).map(String)
const task = fc.record({
  id, owner, name, status, createdAt, version: fc.integer({ min: 1, max: 4 }),
  ttlMs: fc.constantFrom(5, 50, 1_000_000),
})
const query = fc.record({
  of: fc.oneof(fc.constant('all' as const), fc.record({ owner })),
  statuses: fc.option(fc.subarray([...LISTED_STATUSES], { minLength: 1 }), { nil: undefined }),
  names: fc.option(fc.subarray(['report', 'import', 'other'], { minLength: 1 }), { nil: undefined }),
  from: fc.option(createdAt, { nil: undefined }),
  to: fc.option(createdAt, { nil: undefined }),
  order: fc.constantFrom('newest' as const, 'oldest' as const),
  limit: fc.integer({ min: 1, max: 50 }),
  after: fc.option(fc.record({ id, createdAt }), { nil: undefined }),
})
const step = fc.oneof(
  { weight: 6, arbitrary: task.map((value) => ({ kind: 'put' as const, value })) },
  { weight: 1, arbitrary: task.map((value) => ({ kind: 'drop' as const, value })) },
  { weight: 3, arbitrary: query.map((value) => ({ kind: 'list' as const, value })) },
  { weight: 1, arbitrary: fc.integer({ min: 1, max: 30 }).map((value) => ({ kind: 'wait' as const, value })) },
)

describe('lists in memory', () => {
  test('do what a sorted and filtered array does', () => {
    fc.assert(fc.property(fc.array(step, { maxLength: 120 }), (steps) => {
      const model = new Model()
      const index = new MemoryTaskIndex({ now: () => model.time })
      for (const { kind, value } of steps) {
        if (kind === 'wait') model.time += value
        else if (kind === 'put') {
          model.put(value)
          index.put(value)
        } else if (kind === 'drop') {
          model.drop(value)
          index.drop([value])
        } else {
          const listed = index.list(value)
          assert.deepEqual(listed.map((each) => `${each.id} ${each.status}`), model.list(value))
        }
      }
    }), { numRuns: 400 })
  })

  test('stay sorted over many chunks, whatever the order of puts and drops', () => {
    const index = new MemoryTaskIndex()
    const numbers = Array.from({ length: 5000 }, (_, n) => (n * 2741) % 5000)
    const taskOf = (n: number): ListedTask => ({
      id: `task-${String(n)}`, owner: 'ann', name: 'report', status: 'completed', createdAt: n, version: 1, ttlMs: 1e6,
    })
    for (const n of numbers) {
      index.put(taskOf(n))
      if (n % 100 === 0) index.list({ of: 'all', order: 'newest', limit: 1 })
    }
    index.drop(numbers.filter((n) => n % 3 === 0).map(taskOf))
    const left = index.list({ of: { owner: 'ann' }, order: 'oldest', limit: 5000 })
    assert.deepEqual(left.map((task) => task.createdAt), numbers.filter((n) => n % 3 !== 0).sort((a, b) => a - b))
    index.drop(left)
    assert.equal(index.usage.tasks, 0)
    assert.deepEqual(index.list({ of: 'all', order: 'oldest', limit: 5 }), [])
  })

  test('hold no more tasks than they may: the one that was listed first leaves', () => {
    const index = new MemoryTaskIndex({ maxTasks: 3 })
    for (const id of ['a', 'b', 'c', 'd']) {
      index.put({ id, owner: id, name: 'report', status: 'queued', createdAt: 1, version: 1, ttlMs: 1e6 })
    }
    const ids = index.list({ of: 'all', order: 'oldest', limit: 9 }).map((task) => task.id)
    assert.deepEqual([ids, index.usage.tasks], [['b', 'c', 'd'], 3])
    assert.deepEqual(index.list({ of: { owner: 'a' }, order: 'oldest', limit: 9 }), [])
  })

  test('forget a task when it has expired', async () => {
    const index = new MemoryTaskIndex()
    index.put({ id: 'a', owner: 'ann', name: 'report', status: 'failed', createdAt: 1, version: 1, ttlMs: 20 })
    const end = performance.now() + 10_000
    while (index.usage.tasks > 0) {
      assert.ok(performance.now() < end, 'it is never forgotten')
      await new Promise((resolve) => setTimeout(resolve, 20))
    }
  })
})
