import assert from 'node:assert/strict'
import { type Entry } from '../stores/store.js'
import { type Cases } from './runner.js'
import { type StoreContext } from './store-context.js'
import { rejects } from './waiting.js'

/** Tests of each method without concurrent callers. */
export const entries: Cases<StoreContext> = {
  'get gives undefined where nothing is': async (context) => {
    assert.equal(await context.store.get(context.key()), undefined)
  },

  'create writes an entry, and get gives value and revision': async (context) => {
    const revision = await context.created(context.key(), 'one')
    assert.deepEqual({ ...await context.store.get(context.key()) }, { value: 'one', revision })
  },

  'create leaves an entry that is there, and gives it': async (context) => {
    const revision = await context.created(context.key(), 'one')
    const outcome = await context.store.create(context.key(), 'two', context.later)
    assert.deepEqual(outcome, { created: false, entry: { value: 'one', revision } })
    assert.deepEqual({ ...await context.store.get(context.key()) }, { value: 'one', revision })
  },

  'replace writes when the revision is the current one': async (context) => {
    const first = await context.created(context.key(), 'one')
    const outcome = await context.store.replace(context.key(), 'two', first, context.later)
    assert.ok(outcome.replaced, 'replace() refused the current revision')
    assert.notEqual(outcome.revision, first)
    assert.deepEqual(
      { ...(await context.store.get(context.key())) },
      { value: 'two', revision: outcome.revision },
    )
  },

  'replace with an old revision leaves the entry, and gives it': async (context) => {
    const first = await context.created(context.key(), 'one')
    const second = await context.store.replace(context.key(), 'two', first, context.later)
    assert.ok(second.replaced, 'replace() refused the current revision')
    const third = await context.store.replace(context.key(), 'three', first, context.later)
    assert.deepEqual(third, { replaced: false, entry: { value: 'two', revision: second.revision } })
    assert.equal(await context.value(context.key()), 'two')
  },

  'replace with the same value is a new revision all the same': async (context) => {
    const first = await context.created(context.key(), 'same')
    const outcome = await context.store.replace(context.key(), 'same', first, context.later)
    assert.ok(outcome.replaced, 'replace() refused the current revision')
    assert.notEqual(outcome.revision, first)
    assert.equal(
      (await context.store.replace(context.key(), 'same', first, context.later)).replaced,
      false,
    )
  },

  'replace where nothing is writes nothing, and gives undefined': async (context) => {
    const revision = await context.created(context.key('other'), 'one')
    assert.deepEqual(await context.store.replace(context.key(), 'two', revision, context.later), {
      replaced: false,
      entry: undefined,
    })
    assert.equal(await context.store.get(context.key()), undefined)
  },

  'a revision that never was matches nothing': async (context) => {
    const revision = await context.created(context.key(), 'one')
    for (const wrong of [
      '',
      '0',
      'x',
      `${revision} `,
      ` ${revision}`,
      `${revision}0`,
      `0${revision}`,
      `${revision}.0`,
      '*',
      'undefined',
    ]) {
      const outcome = await context.store.replace(context.key(), 'two', wrong, context.later)
      assert.equal(
        outcome.replaced,
        false,
        `replace took the revision ${JSON.stringify(wrong)} for ${JSON.stringify(revision)}`,
      )
      assert.equal(
        await context.store.delete(context.key(), wrong),
        false,
        `delete took the revision ${JSON.stringify(wrong)}`,
      )
    }
    assert.equal(await context.value(context.key()), 'one')
  },

  'delete removes, once': async (context) => {
    await context.created(context.key(), 'one')
    assert.equal(await context.store.delete(context.key()), true)
    assert.equal(await context.store.get(context.key()), undefined)
    assert.equal(await context.store.delete(context.key()), false)
  },

  'delete with a revision removes only that one': async (context) => {
    const first = await context.created(context.key(), 'one')
    const second = await context.store.replace(context.key(), 'two', first, context.later)
    assert.ok(second.replaced, 'replace() refused the current revision')
    assert.equal(await context.store.delete(context.key(), first), false)
    assert.equal(await context.value(context.key()), 'two')
    assert.equal(await context.store.delete(context.key(), second.revision), true)
    assert.equal(await context.store.get(context.key()), undefined)
  },

  'no revision comes twice for a key, not even after delete': async (context) => {
    const seen: string[] = []
    for (let round = 0; round < 3; round++) {
      let revision = await context.created(context.key(), 'x')
      seen.push(revision)
      for (let i = 0; i < 3; i++) {
        const outcome = await context.store.replace(context.key(), 'x', revision, context.later)
        assert.ok(outcome.replaced, 'replace() refused the current revision')
        revision = outcome.revision
        seen.push(revision)
      }
      assert.equal(await context.store.delete(context.key(), revision), true)
    }
    assert.equal(new Set(seen).size, seen.length, `a revision came twice: ${seen.join(', ')}`)
  },

  'the revision of a deleted entry does not fit its successor': async (context) => {
    const old = await context.created(context.key(), 'old')
    await context.store.delete(context.key())
    await context.created(context.key(), 'new')
    assert.equal(
      (await context.store.replace(context.key(), 'late', old, context.later)).replaced,
      false,
    )
    assert.equal(await context.store.delete(context.key(), old), false)
    assert.equal(await context.value(context.key()), 'new')
  },

  'what a caller does to an entry that it was given changes nothing': async (context) => {
    const revision = await context.created(context.key(), 'one')
    const entry = (await context.store.get(context.key())) as {
      -readonly [K in keyof Entry]: Entry[K]
    }
    try {
      entry.value = 'two'
      entry.revision = 'none'
    } catch {
      // Frozen is as good as copied.
    }
    assert.equal(await context.value(context.key()), 'one')
    assert.equal(
      (await context.store.replace(context.key(), 'three', revision, context.later)).replaced,
      true,
    )
  },

  'evictable is taken; such an entry may go early, others may not': async (context) => {
    const first = await context.created(context.key('held'), 'held')
    for (let i = 0; i < 20; i++) {
      const outcome = await context.store.create(context.key(`evictable-${i}`), `${i}`, {
        ...context.later,
        evictable: true,
      })
      assert.equal(outcome.created, true)
      const value = await context.value(context.key(`evictable-${i}`))
      assert.ok(
        value === undefined || value === `${i}`,
        'the evictable entry has the value of another',
      )
    }
    assert.equal(await context.value(context.key('held')), 'held')
    const second = await context.store.replace(context.key('held'), 'free', first, {
      ...context.later,
      evictable: true,
    })
    assert.equal(second.replaced, true)
  },

  'misuse rejects with a TypeError and changes nothing': async (context) => {
    const revision = await context.created(context.key(), 'one')
    for (const ttlMs of [NaN, Infinity]) {
      await rejects(context.store.create(context.key('new'), 'x', { ttlMs }), TypeError)
      await rejects(context.store.replace(context.key(), 'x', revision, { ttlMs }), TypeError)
      await rejects(context.store.increment(context.key('count'), 1, { ttlMs }), TypeError)
    }
    await rejects(context.store.increment(context.key('count'), 0.5, context.later), TypeError)
    await rejects(context.store.increment(context.key('count'), NaN, context.later), TypeError)
    assert.equal(await context.value(context.key()), 'one')
    assert.equal(await context.store.get(context.key('new')), undefined)
    assert.equal((await context.store.increment(context.key('count'), 1, context.later)).value, 1)
  }
}
