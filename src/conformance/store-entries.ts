import assert from 'node:assert/strict'
import { type Entry } from '../stores/store.js'
import { type Cases } from './runner.js'
import { type StoreBench } from './store-bench.js'
import { rejects } from './waiting.js'

/** What each verb does while nobody else is there. */
export const entries: Cases<StoreBench> = {
  'get gives undefined where nothing is': async (bench) => {
    assert.equal(await bench.store.get(bench.key()), undefined)
  },

  'create writes an entry, and get gives value and revision': async (bench) => {
    const revision = await bench.created(bench.key(), 'one')
    assert.deepEqual({ ...await bench.store.get(bench.key()) }, { value: 'one', revision })
  },

  'create leaves an entry that is there, and gives it': async (bench) => {
    const revision = await bench.created(bench.key(), 'one')
    const outcome = await bench.store.create(bench.key(), 'two', bench.later)
    assert.deepEqual(outcome, { created: false, entry: { value: 'one', revision } })
    assert.deepEqual({ ...await bench.store.get(bench.key()) }, { value: 'one', revision })
  },

  'replace writes when the revision is the current one': async (bench) => {
    const first = await bench.created(bench.key(), 'one')
    const outcome = await bench.store.replace(bench.key(), 'two', first, bench.later)
    assert.ok(outcome.replaced, 'replace() refused the current revision')
    assert.notEqual(outcome.revision, first)
    assert.deepEqual({ ...await bench.store.get(bench.key()) }, { value: 'two', revision: outcome.revision })
  },

  'replace with an old revision leaves the entry, and gives it': async (bench) => {
    const first = await bench.created(bench.key(), 'one')
    const second = await bench.store.replace(bench.key(), 'two', first, bench.later)
    assert.ok(second.replaced, 'replace() refused the current revision')
    const third = await bench.store.replace(bench.key(), 'three', first, bench.later)
    assert.deepEqual(third, { replaced: false, entry: { value: 'two', revision: second.revision } })
    assert.equal(await bench.value(bench.key()), 'two')
  },

  'replace with the same value is a new revision all the same': async (bench) => {
    const first = await bench.created(bench.key(), 'same')
    const outcome = await bench.store.replace(bench.key(), 'same', first, bench.later)
    assert.ok(outcome.replaced, 'replace() refused the current revision')
    assert.notEqual(outcome.revision, first)
    assert.equal((await bench.store.replace(bench.key(), 'same', first, bench.later)).replaced, false)
  },

  'replace where nothing is writes nothing, and gives undefined': async (bench) => {
    const revision = await bench.created(bench.key('other'), 'one')
    assert.deepEqual(await bench.store.replace(bench.key(), 'two', revision, bench.later), { replaced: false, entry: undefined })
    assert.equal(await bench.store.get(bench.key()), undefined)
  },

  'a revision that never was matches nothing': async (bench) => {
    const revision = await bench.created(bench.key(), 'one')
    for (const wrong of ['', '0', 'x', `${revision} `, ` ${revision}`, `${revision}0`, `0${revision}`, `${revision}.0`, '*', 'undefined']) {
      const outcome = await bench.store.replace(bench.key(), 'two', wrong, bench.later)
      assert.equal(outcome.replaced, false, `replace took the revision ${JSON.stringify(wrong)} for ${JSON.stringify(revision)}`)
      assert.equal(await bench.store.delete(bench.key(), wrong), false, `delete took the revision ${JSON.stringify(wrong)}`)
    }
    assert.equal(await bench.value(bench.key()), 'one')
  },

  'delete removes, once': async (bench) => {
    await bench.created(bench.key(), 'one')
    assert.equal(await bench.store.delete(bench.key()), true)
    assert.equal(await bench.store.get(bench.key()), undefined)
    assert.equal(await bench.store.delete(bench.key()), false)
  },

  'delete with a revision removes only that one': async (bench) => {
    const first = await bench.created(bench.key(), 'one')
    const second = await bench.store.replace(bench.key(), 'two', first, bench.later)
    assert.ok(second.replaced, 'replace() refused the current revision')
    assert.equal(await bench.store.delete(bench.key(), first), false)
    assert.equal(await bench.value(bench.key()), 'two')
    assert.equal(await bench.store.delete(bench.key(), second.revision), true)
    assert.equal(await bench.store.get(bench.key()), undefined)
  },

  'no revision comes twice for a key, not even after delete': async (bench) => {
    const seen: string[] = []
    for (let round = 0; round < 3; round++) {
      let revision = await bench.created(bench.key(), 'x')
      seen.push(revision)
      for (let i = 0; i < 3; i++) {
        const outcome = await bench.store.replace(bench.key(), 'x', revision, bench.later)
        assert.ok(outcome.replaced, 'replace() refused the current revision')
        revision = outcome.revision
        seen.push(revision)
      }
      assert.equal(await bench.store.delete(bench.key(), revision), true)
    }
    assert.equal(new Set(seen).size, seen.length, `a revision came twice: ${seen.join(', ')}`)
  },

  'the revision of a deleted entry does not fit its successor': async (bench) => {
    const old = await bench.created(bench.key(), 'old')
    await bench.store.delete(bench.key())
    await bench.created(bench.key(), 'new')
    assert.equal((await bench.store.replace(bench.key(), 'late', old, bench.later)).replaced, false)
    assert.equal(await bench.store.delete(bench.key(), old), false)
    assert.equal(await bench.value(bench.key()), 'new')
  },

  'what a caller does to an entry that it was given changes nothing': async (bench) => {
    const revision = await bench.created(bench.key(), 'one')
    const entry = await bench.store.get(bench.key()) as { -readonly [K in keyof Entry]: Entry[K] }
    try {
      entry.value = 'two'
      entry.revision = 'none'
    } catch {
      // Frozen is as good as copied.
    }
    assert.equal(await bench.value(bench.key()), 'one')
    assert.equal((await bench.store.replace(bench.key(), 'three', revision, bench.later)).replaced, true)
  },

  'evictable is taken; such an entry may go early, others may not': async (bench) => {
    const first = await bench.created(bench.key('held'), 'held')
    for (let i = 0; i < 20; i++) {
      const outcome = await bench.store.create(bench.key(`evictable-${i}`), `${i}`, { ...bench.later, evictable: true })
      assert.equal(outcome.created, true)
      const value = await bench.value(bench.key(`evictable-${i}`))
      assert.ok(value === undefined || value === `${i}`, 'the evictable entry has the value of another')
    }
    assert.equal(await bench.value(bench.key('held')), 'held')
    const second = await bench.store.replace(bench.key('held'), 'free', first, { ...bench.later, evictable: true })
    assert.equal(second.replaced, true)
  },

  'an entry that goes with another one never goes before it': async (bench) => {
    const [leader, follower] = [bench.key('leader'), bench.key('follower')]
    const first = await bench.created(leader, 'pinned')
    const going = { ...bench.later, evictable: { with: leader } }
    assert.equal((await bench.store.create(follower, 'follower', going)).created, true)
    const fill = async (name: string): Promise<void> => {
      for (let i = 0; i < 150; i++) {
        await bench.store.create(bench.key(`${name}-${i}`), 'x'.repeat(1000), { ...bench.later, evictable: true })
        const early = await bench.value(follower) === undefined && await bench.value(leader) !== undefined
        assert.ok(!early, 'the follower went before its leader')
      }
    }
    await fill('pinned')
    assert.deepEqual([await bench.value(leader), await bench.value(follower)], ['pinned', 'follower'])
    const second = await bench.store.replace(leader, 'evictable', first, { ...bench.later, evictable: true })
    assert.equal(second.replaced, true)
    await fill('evictable')
    const held = await bench.store.get(follower)
    if (held === undefined) return
    const outcome = await bench.store.replace(follower, 'changed', held.revision, going)
    assert.ok(!outcome.replaced || ['changed', undefined].includes(await bench.value(follower)))
    await bench.store.delete(leader)
    assert.ok(['changed', undefined].includes(await bench.value(follower)), 'it need not go with its leader')
  },

  'misuse rejects with a TypeError and changes nothing': async (bench) => {
    const revision = await bench.created(bench.key(), 'one')
    for (const ttlMs of [NaN, Infinity]) {
      await rejects(bench.store.create(bench.key('new'), 'x', { ttlMs }), TypeError)
      await rejects(bench.store.replace(bench.key(), 'x', revision, { ttlMs }), TypeError)
      await rejects(bench.store.increment(bench.key('count'), 1, { ttlMs }), TypeError)
    }
    await rejects(bench.store.increment(bench.key('count'), 0.5, bench.later), TypeError)
    await rejects(bench.store.increment(bench.key('count'), NaN, bench.later), TypeError)
    assert.equal(await bench.value(bench.key()), 'one')
    assert.equal(await bench.store.get(bench.key('new')), undefined)
    assert.equal((await bench.store.increment(bench.key('count'), 1, bench.later)).value, 1)
  }
}
