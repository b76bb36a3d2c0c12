import assert from 'node:assert/strict'
import { type Cases } from './runner.js'
import { type StoreBench } from './store-bench.js'

const DECADE = 10 * 365 * 86_400_000

/** When entries go. */
export const expiry: Cases<StoreBench> = {
  'an entry is there before its expiry and gone after it': async (bench) => {
    const { key, expiresAt } = await bench.whileLive(async (key, expiresAt) => {
      await bench.created(key, 'x', { expiresAt })
      assert.equal(await bench.value(key), 'x', 'the entry went before its expiry')
    })
    await bench.past(expiresAt)
    assert.equal(await bench.store.get(key), undefined, 'the entry outlived its expiry')
  },

  'replace of an expired entry finds nothing': async (bench) => {
    const { expiresAt } = bench.soon
    const revision = await created(bench, expiresAt)
    await bench.past(expiresAt)
    assert.deepEqual(await bench.store.replace(bench.key(), 'y', revision, bench.later), { replaced: false, entry: undefined })
    assert.equal(await bench.store.get(bench.key()), undefined)
  },

  'delete of an expired entry removes nothing': async (bench) => {
    const { expiresAt } = bench.soon
    const revision = await created(bench, expiresAt)
    await bench.past(expiresAt)
    assert.equal(await bench.store.delete(bench.key(), revision), false)
    assert.equal(await bench.store.delete(bench.key()), false)
  },

  'create works after the expiry, under a new revision': async (bench) => {
    const { expiresAt } = bench.soon
    const old = await created(bench, expiresAt)
    await bench.past(expiresAt)
    const revision = await bench.created(bench.key(), 'new')
    assert.notEqual(revision, old)
    assert.equal((await bench.store.replace(bench.key(), 'late', old, bench.later)).replaced, false)
    assert.equal(await bench.value(bench.key()), 'new')
  },

  'replace can move the expiry further away': async (bench) => {
    const { expiresAt: later } = bench.later
    const { key, expiresAt } = await bench.whileLive(async (key, expiresAt) => {
      const revision = await bench.created(key, 'x', { expiresAt })
      assert.ok((await bench.store.replace(key, 'y', revision, { expiresAt: later })).replaced, 'the entry went before its expiry')
    })
    await bench.past(expiresAt)
    const entry = await bench.store.get(key)
    assert.equal(entry?.value, 'y', 'the entry went at its first expiry')
    assert.equal(entry?.expiresAt, later)
  },

  'replace can bring the expiry nearer': async (bench) => {
    const revision = await bench.created(bench.key(), 'x')
    const { expiresAt } = bench.soon
    assert.equal((await bench.store.replace(bench.key(), 'y', revision, { expiresAt })).replaced, true)
    await bench.past(expiresAt)
    assert.equal(await bench.store.get(bench.key()), undefined)
  },

  'a create that lost does not move the expiry': async (bench) => {
    const { expiresAt } = bench.soon
    await created(bench, expiresAt)
    await bench.store.create(bench.key(), 'y', { expiresAt: expiresAt - 1 })
    await bench.past(expiresAt)
    assert.equal(await bench.store.get(bench.key()), undefined)
  },

  'a write whose expiry is past counts as written and is gone at once': async (bench) => {
    const expiresAt = bench.now() - 10 * bench.tolerance - 1000
    assert.equal((await bench.store.create(bench.key(), 'x', { expiresAt })).created, true)
    assert.equal(await bench.store.get(bench.key()), undefined)
    const revision = await bench.created(bench.key(), 'y')
    assert.equal((await bench.store.replace(bench.key(), 'z', revision, { expiresAt })).replaced, true)
    assert.equal(await bench.store.get(bench.key()), undefined)
    await bench.created(bench.key(), 'free again')
  },

  'an expiry may be ten years away': async (bench) => {
    const expiresAt = bench.now() + DECADE
    await bench.created(bench.key(), 'x', { expiresAt })
    assert.equal((await bench.store.get(bench.key()))?.expiresAt, expiresAt)
    assert.equal((await bench.store.increment(bench.key(), 1, { expiresAt })).expiresAt, expiresAt)
  }
}

/** An entry that may have expired by the time that this returns. */
async function created(bench: StoreBench, expiresAt: number): Promise<string> {
  return bench.created(bench.key(), 'x', { expiresAt })
}
