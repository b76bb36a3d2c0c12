import assert from 'node:assert/strict'
import { describe, test } from 'node:test'
import { TaskLists, type Listed } from '../../../adapters/memory/task-lists.js'

function listedOf(n: number): Listed {
  return {
    id: `task-${String(n)}`, owner: 'ann', caller: 'owner ann', name: 'report', createdAt: n,
    listed: undefined, sortedAs: undefined, isUnsorted: false,
  }
}

describe('lists of the engine in memory', () => {
  test('stay sorted over many chunks, in any order of changes', () => {
    const lists = new TaskLists<Listed>()
    const page = (of: 'all' | { owner: string }, limit: number) => (
      lists.page({ of, order: 'oldest', limit }, () => false).map(({ createdAt }) => createdAt)
    )
    const numbers = Array.from({ length: 5000 }, (_, n) => (n * 2741) % 5000)
    const tasks = numbers.map(listedOf)
    for (const task of tasks) {
      lists.put(task, 'queued')
      if (task.createdAt % 100 === 0) page('all', 1)
      lists.put(task, 'completed')
    }
    for (const task of tasks) if (task.createdAt % 3 === 0) lists.remove(task)
    assert.deepEqual(page({ owner: 'ann' }, 5000), numbers.filter((n) => n % 3 !== 0).sort((a, b) => a - b))
    for (const task of tasks) lists.remove(task)
    assert.deepEqual([page('all', 5), page({ owner: 'ann' }, 5)], [[], []])
  })
})
