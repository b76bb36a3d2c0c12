import assert from 'node:assert/strict'
import { test } from 'node:test'
import type { CallbackState } from '../../../../src/tasks/record/callback-state.js'
import { change, type TaskRecord } from '../../../../src/tasks/record/record.js'

const callback: CallbackState = { url: 'http://a.example/', state: 'pending', attempts: 0 }
const record: TaskRecord = {
  id: 'a1', name: 'export', owner: 'ann', state: 'completed', job: 'j1', attempt: 1, version: 3, createdAt: 1, startedAt: 2, finishedAt: 3, expiresAt: 4,
  progress: { done: 1 }, result: '{"message":"done"}', error: undefined, errorStatus: undefined, claim: 'c', slot: 's', callback,
}

test('in a final record only the state of its callback changes, which clients see', () => {
  const told: CallbackState = { ...callback, state: 'delivered', attempts: 1 }
  assert.deepEqual(change(record, { callback: told }), { ...record, callback: told, version: 4 })
})

test('late reports and cancels do not change a final record that has a callback, and no record gets a callback later', () => {
  const others = [{ progress: { done: 2 } }, { expiresAt: 9 }, { state: 'cancelled' }, { state: 'cancelled', callback }, { state: 'completed', result: '{}' }] as const
  for (const to of others) assert.equal(change(record, to), undefined, JSON.stringify(to))
  assert.equal(change({ ...record, callback: undefined }, { callback }), undefined)
})
