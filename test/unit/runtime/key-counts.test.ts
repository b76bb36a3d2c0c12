import assert from 'node:assert/strict'
import { test } from 'node:test'
import { KeyCounts } from '../../../src/runtime/key-counts.js'

test('counts each key by itself, and keeps no key whose count is 0', () => {
  const counts = new KeyCounts<string | undefined>()
  for (const key of ['a', 'a', 'b', undefined]) counts.add(key)
  assert.deepEqual([counts.get('a'), counts.get('b'), counts.get(undefined), counts.get('c'), counts.size], [2, 1, 1, 0, 3])
  for (const key of ['a', 'b', 'b', 'c', undefined]) counts.remove(key)
  assert.deepEqual([counts.get('a'), counts.get('b'), counts.get(undefined), counts.get('c'), counts.size], [1, 0, 0, 0, 1])
})
