import assert from 'node:assert/strict'
import { test } from 'node:test'
import { KeyCounts } from '../../../src/runtime/collections.js'

test('KeyCounts counts each key separately', () => {
  const counts = new KeyCounts<string | undefined>()
  for (const key of ['a', 'a', 'b', undefined]) counts.add(key)
  assert.deepEqual(['a', 'b', undefined, 'c'].map((key) => counts.get(key)), [2, 1, 1, 0])
  for (const key of ['a', 'b', 'b', 'c', undefined]) counts.remove(key)
  assert.deepEqual(['a', 'b', undefined, 'c'].map((key) => counts.get(key)), [1, 0, 0, 0])
})

test('KeyCounts keeps at most 64 keys with a count of 0', () => {
  const counts = new KeyCounts<number>()
  const keys = Array.from({ length: 10_000 }, (_, key) => key)
  for (const key of keys) counts.add(key)
  assert.equal(counts.size, 10_000)
  for (const key of keys) counts.remove(key)
  assert.equal(counts.size, 64)
  for (const key of keys) counts.add(key)
  assert.ok(keys.every((key) => counts.get(key) === 1))
})
