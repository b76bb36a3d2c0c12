// The parts of a text that a task writes in several runs.
import assert from 'node:assert/strict'
import { test } from 'node:test'
import { MemoryBlobs } from '../../../adapters/memory/index.js'
import type { Blobs } from '../../../src/stores/blobs.js'
import { deleteParts, KeptParts, renewParts, textOf } from '../../../src/records/kept-parts.js'

const partsOf = (blobs: MemoryBlobs, run: number): KeptParts => new KeptParts(blobs, 'body', run, 60_000, (work) => work())

test('a later run continues the text of an earlier run at the committed list', async () => {
  const blobs = new MemoryBlobs()
  const first = partsOf(blobs, 1)
  await first.add('one ')
  await first.add('two ')
  const committed = first.list
  await first.add('lost ')
  const third = partsOf(blobs, 3)
  third.list = committed
  await third.add('thr\u00e9\u00e9 ')
  await third.add('four')
  assert.deepEqual(third.list, [[1, 0, 2], [3, 0, 2]])
  assert.equal(await textOf(third.read()), 'one two thr\u00e9\u00e9 four')
})

test('a late run cannot change the text of a newer run', async () => {
  const blobs = new MemoryBlobs()
  const late = partsOf(blobs, 1)
  await late.add('one ')
  const next = partsOf(blobs, 2)
  next.list = late.list
  await next.add('two')
  await late.add('late')
  assert.equal(await textOf(next.read()), 'one two')
})

test('the parts of an emptied list do not belong to the text, and are deleted with the task', async () => {
  const blobs = new MemoryBlobs()
  const parts = partsOf(blobs, 1)
  await parts.add('rolled back')
  parts.list = []
  await parts.add('again')
  assert.deepEqual(parts.list, [[1, 1, 2]])
  assert.equal(await textOf(parts.read()), 'again')
  await deleteParts(blobs, 'body')
  assert.equal(blobs.usage().blobs, 0)
})

test('all parts of all runs are deleted, even those that no list names', async () => {
  const blobs = new MemoryBlobs()
  for (const [run, count] of [[1, 1], [4, 16], [5, 40]] as const) {
    const parts = partsOf(blobs, run)
    for (let part = 0; part < count; part++) await parts.add('text')
  }
  assert.equal(blobs.usage().blobs, 58)
  await deleteParts(blobs, 'body')
  assert.equal(blobs.usage().blobs, 0)
  await deleteParts(blobs, 'body')
})

test('all parts of all runs are renewed for a retry', async () => {
  const blobs = new MemoryBlobs()
  const renewed = new Map<string, number>()
  const watched: Blobs = {
    shared: false, put: (...args) => blobs.put(...args), stat: (key) => blobs.stat(key), open: (...args) => blobs.open(...args),
    delete: (key) => blobs.delete(key), close: () => blobs.close(),
    renew: async (key, ttlMs) => {
      const info = await blobs.renew(key, ttlMs)
      if (info !== undefined) renewed.set(key, ttlMs)
      return info
    },
  }
  for (const [run, count] of [[1, 2], [3, 20]] as const) {
    const parts = partsOf(blobs, run)
    for (let part = 0; part < count; part++) await parts.add('text')
  }
  await renewParts(watched, 'body', 5000)
  assert.equal(renewed.size, 23, '22 parts and the list of runs')
  assert.ok([...renewed.values()].every((ttlMs) => ttlMs === 5000))
})

test('a part that has expired ends the reading with an error', async () => {
  const blobs = new MemoryBlobs()
  const parts = partsOf(blobs, 1)
  await parts.add('text')
  await deleteParts(blobs, 'body')
  await assert.rejects(textOf(parts.read()), { code: 'gone' })
})
