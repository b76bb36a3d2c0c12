import assert from 'node:assert/strict'
import { spawn } from 'node:child_process'
import { once } from 'node:events'
import { describe, test } from 'node:test'
import { isStoreUnavailable, type WriteOptions } from '../../../src/stores/store.js'
import { memory } from '../../../adapters/memory/index.js'
import { MemoryStore, type MemoryStoreOptions } from '../../../adapters/memory/store.js'

const START = 1_700_000_000_000

function open(options: MemoryStoreOptions = {}) {
  const clock = { time: START }
  const store = new MemoryStore({ ...options, now: () => clock.time })
  return { clock, store }
}

const pinned: WriteOptions = { ttlMs: 1000 }
const evictable: WriteOptions = { ttlMs: 1000, evictable: true }
const full = (error: unknown) => isStoreUnavailable(error) && error.reason === 'full'

async function values(store: MemoryStore, keys: string[]): Promise<string> {
  const found = await Promise.all(keys.map(async (key) => store.get(key)))
  return keys.filter((_, i) => found[i] !== undefined).join('')
}

describe('MemoryStore', () => {
  test('rejects invalid limits, and names them', () => {
    for (const wrong of [0, -1, 1.5, NaN, Infinity, 9_000_000]) {
      assert.throws(
        () => new MemoryStore({ maxEntries: wrong }),
        /TypeError: MemoryStore: maxEntries must be a whole number from 1 to 8000000/,
      )
      assert.throws(() => new MemoryStore({ maxCounters: wrong }), /maxCounters/)
      assert.throws(() => new MemoryStore({ maxWatches: wrong }), /maxWatches/)
    }
    for (const wrong of [0, -1, 0.5, NaN, Infinity])
      assert.throws(() => new MemoryStore({ maxBytes: wrong }), /maxBytes/)
  })

  test('rejects the next write and evicts nothing if it has the maximum number of pinned entries', async () => {
    const { store } = open({ maxEntries: 2 })
    await store.create('a', 'a', pinned)
    await store.create('b', 'b', pinned)
    await assert.rejects(async () => store.create('c', 'c', pinned), full)
    await assert.rejects(async () => store.create('d', 'd', evictable), full)
    assert.equal(await values(store, ['a', 'b', 'c', 'd']), 'ab')
    await store.delete('a')
    assert.equal((await store.create('c', 'c', pinned)).created, true)
  })

  test('rejects create and a larger replace if pinned entries fill its bytes, and accepts another replace', async () => {
    const { store } = open({ maxBytes: 2 * (256 + 1) + 100 })
    const first = await store.create('a', 'x'.repeat(50), pinned)
    await store.create('b', 'x'.repeat(50), pinned)
    assert.ok(first.created, 'nothing was created')
    await assert.rejects(async () => store.create('c', '', pinned), full)
    await assert.rejects(async () => store.replace('a', 'x'.repeat(51), first.revision, pinned), full)
    assert.equal((await store.get('a'))?.revision, first.revision)
    assert.equal((await store.replace('a', 'y'.repeat(50), first.revision, pinned)).replaced, true)
    assert.equal(store.usage().bytes, 2 * 257 + 100)
  })

  test('counts two bytes for each UTF-16 unit of text beyond ASCII', async () => {
    const { store } = open()
    await store.create('k', 'caf\u00e9', pinned)
    assert.equal(store.usage().bytes, 256 + 1 + 8)
  })

  test('can evict evictable entries at any write, the least recently used first', async () => {
    const { store } = open({ maxEntries: 3 })
    for (const key of ['a', 'b', 'c']) await store.create(key, key, evictable)
    await store.get('a')
    await store.create('d', 'd', evictable)
    assert.equal(await values(store, ['a', 'b', 'c', 'd']), 'acd')
    await store.create('e', 'e', pinned)
    await store.create('f', 'f', pinned)
    await store.create('g', 'g', pinned)
    assert.equal(await values(store, ['a', 'c', 'd', 'e', 'f', 'g']), 'efg')
  })

  test('rejects an entry larger than the store without evicting other entries', async () => {
    const { store } = open({ maxBytes: 2000 })
    await store.create('a', 'a', evictable)
    await store.create('b', 'b', pinned)
    await assert.rejects(async () => store.create('c', 'x'.repeat(2000), evictable), full)
    await assert.rejects(async () => store.create('c', 'x'.repeat(2000 - 256 - 1 - 257 + 1), evictable), full)
    assert.equal(await values(store, ['a', 'b', 'c']), 'ab')
    assert.equal((await store.create('c', 'x'.repeat(2000 - 256 - 1 - 257 - 1), evictable)).created, true)
    assert.equal(await values(store, ['a', 'b', 'c']), 'bc')
  })

  test('makes a pinned entry evictable and back by replace', async () => {
    const { store } = open({ maxEntries: 2 })
    const a = await store.create('a', '1', pinned)
    assert.ok(a.created, 'nothing was created')
    const b = await store.replace('a', '2', a.revision, evictable)
    assert.ok(b.replaced, 'nothing was replaced')
    assert.deepEqual([store.usage().entries, store.usage().pinned], [1, 0])
    const c = await store.replace('a', '3', b.revision, pinned)
    assert.ok(c.replaced, 'nothing was replaced')
    assert.deepEqual([store.usage().entries, store.usage().pinned], [1, 1])
    assert.equal((await store.replace('a', '4', c.revision, evictable)).replaced, true)
    await store.create('b', 'b', pinned)
    await store.create('c', 'c', pinned)
    assert.equal(await values(store, ['a', 'b', 'c']), 'bc')
  })

  test('removes expired entries first if it is full', async () => {
    const { clock, store } = open({ maxEntries: 50 })
    for (let i = 0; i < 50; i++) await store.create(`k${i}`, '', { ttlMs: 10 + (i % 2) * 10 })
    clock.time = START + 10
    for (let i = 0; i < 25; i++) assert.equal((await store.create(`n${i}`, '', pinned)).created, true)
    await assert.rejects(async () => store.create('more', '', pinned), full)
    clock.time = START + 20
    for (let i = 25; i < 50; i++) assert.equal((await store.create(`n${i}`, '', pinned)).created, true)
    await assert.rejects(async () => store.create('more', '', pinned), full)
    assert.equal(store.usage().entries, 50)
  })

  test('needs no space for a write that has already expired, even if it is full', async () => {
    const { store } = open({ maxEntries: 2 })
    await store.create('a', '', evictable)
    const b = await store.create('b', '', pinned)
    assert.equal((await store.create('c', '', { ttlMs: 0 })).created, true)
    assert.equal(await values(store, ['a', 'b', 'c']), 'ab')
    assert.ok(b.created, 'nothing was created')
    assert.equal((await store.replace('b', 'x', b.revision, { ttlMs: 0 })).replaced, true)
    assert.deepEqual([store.usage().entries, store.usage().pinned], [1, 0])
  })

  test('has an entry until one millisecond before its expiry, and no longer at its expiry', async () => {
    const { clock, store } = open()
    await store.create('k', 'v', { ttlMs: 5 })
    clock.time = START + 4
    assert.equal((await store.get('k'))?.value, 'v')
    clock.time = START + 5
    assert.equal(await store.get('k'), undefined)
    assert.equal(store.usage().entries, 0)
  })

  test('removes expired entries and counters in the background, and notifies watchers', async () => {
    const { clock, store } = open()
    let notices = 0
    for (let i = 0; i < 300; i++) {
      await store.create(`p${i}`, '', { ttlMs: 5 })
      await store.create(`e${i}`, '', { ttlMs: 5, evictable: true })
      await store.increment(`c${i}`, 1, { ttlMs: 5 })
    }
    await store.create('stays', '', pinned)
    clock.time = START + 5
    await new Promise<void>((resolve) => {
      void store.watch('p299', () => {
        notices++
        resolve()
      })
      // The sweep's own timer keeps no process alive; this one does, and ends with the test.
      const alive = setInterval(() => { if (notices > 0) clearInterval(alive) }, 20)
    })
    while (store.usage().entries > 1 || store.usage().counters > 0)
      await new Promise((resolve) => setTimeout(resolve, 20))
    assert.deepEqual([store.usage().entries, store.usage().pinned], [1, 1])
    await store.close()
  })

  test('notifies the watchers of an evicted key', async () => {
    const { store } = open({ maxEntries: 1 })
    await store.create('a', '', evictable)
    let notices = 0
    await store.watch('a', () => { notices++ })
    await store.create('b', '', pinned)
    await Promise.resolve()
    assert.equal(notices, 1)
  })

  test('resets the counter whose last change was first if it is full', async () => {
    const { store } = open({ maxCounters: 3 })
    const add = async (key: string) => (await store.increment(key, 1, pinned)).value
    for (const key of ['a', 'b', 'c', 'a']) await add(key)
    await add('d')
    assert.deepEqual([await add('a'), await add('c'), await add('d'), await add('b')], [3, 2, 2, 1])
    assert.equal(store.usage().counters, 3)
    assert.deepEqual([store.usage().entries, store.usage().bytes], [0, 0])
  })

  test('counts a long counter key several times, and rejects it without space', async () => {
    const { store } = open({ maxCounters: 3 })
    for (const key of ['a', 'b', 'c']) await store.increment(key, 1, pinned)
    await store.increment('x'.repeat(300), 1, pinned)
    assert.equal(store.usage().counters, 2)
    const { store: small } = open({ maxCounters: 1 })
    await assert.rejects(async () => small.increment('x'.repeat(300), 1, pinned), full)
    assert.equal(small.usage().counters, 0)
  })

  test('rejects a counter beyond the safe integers, and keeps its value', async () => {
    const { store } = open()
    await store.increment('k', Number.MAX_SAFE_INTEGER, pinned)
    await assert.rejects(async () => store.increment('k', 1, pinned), TypeError)
    assert.equal((await store.increment('k', -1, pinned)).value, Number.MAX_SAFE_INTEGER - 1)
  })

  test('limits the watches, and releases everything after an unsubscribe', async () => {
    const { store } = open({ maxWatches: 2 })
    const first = await store.watch('a', () => undefined)
    const second = await store.watch('a', () => undefined)
    await assert.rejects(async () => store.watch('b', () => undefined), full)
    first()
    first()
    const third = await store.watch('b', () => undefined)
    await assert.rejects(async () => store.watch('c', () => undefined), full)
    second()
    third()
    assert.equal(store.usage().watches, 0)
  })

  test('does not loop if a listener watches the same key again in every notice', async () => {
    const { store } = open()
    let calls = 0
    const listener = () => {
      calls++
      void store.watch('k', listener)
    }
    await store.watch('k', listener)
    await store.create('k', '', pinned)
    await new Promise(setImmediate)
    assert.equal(calls, 1)
  })

  test('drops a pending notice when it closes', async () => {
    const { store } = open()
    let calls = 0
    await store.watch('k', () => { calls++ })
    const written = store.create('k', '', pinned)
    void store.close()
    await written
    await new Promise(setImmediate)
    assert.equal(calls, 0)
  })

  test('keeps no process alive while it is open', async () => {
    const code = `import { MemoryStore } from ${JSON.stringify(new URL('../../../adapters/memory/store.ts', import.meta.url).href)}
      const store = new MemoryStore()
      await store.create('k', 'v', { ttlMs: 60_000 })
      await store.increment('k', 1, { ttlMs: 60_000 })
      await store.watch('k', () => undefined)`
    const child = spawn(process.execPath, ['--import', 'tsx', '--input-type=module', '--eval', code], {
      stdio: 'inherit',
    })
    assert.deepEqual(await once(child, 'exit'), [0, null])
  })

  test('limits what one owner keeps with memory(), as the engine does', async () => {
    for (const options of [{ maxEntriesPerOwner: 1 }, { maxEntriesPerOwner: 9, store: { maxEntriesPerOwner: 1 } }]) {
      const { store } = memory(options)
      for (const key of ['first', 'second'])
        await store.create(key, key, { ttlMs: 60_000, caller: 'ann', evictable: true })
      assert.equal(await store.get('first'), undefined)
      assert.equal((await store.get('second'))?.value, 'second')
    }
  })

  test('is created by memory() with its options', async () => {
    const { store } = memory({ store: { maxEntries: 1 } })
    await store.create('a', '', { ttlMs: 1000 })
    await assert.rejects(async () => store.create('b', '', { ttlMs: 1000 }), full)
    assert.throws(() => memory({ store: { maxEntries: 0 } }), /maxEntries/)
    await store.close()
  })
})
