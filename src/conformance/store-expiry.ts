import assert from 'node:assert/strict'
import { type Cases } from './runner.js'
import { type StoreContext } from './store-context.js'

const DECADE = { ttlMs: 10 * 365 * 86_400_000 }
const NONE = { ttlMs: -1000 }

/** Tests of expiry. */
export const expiry: Cases<StoreContext> = {
  'an entry is there before its expiry and gone after it': async (context) => {
    const { key, life } = await context.whileLive(async (key, life) => {
      await context.created(key, 'x', life)
      assert.equal(await context.value(key), 'x', 'the entry went before its expiry')
    })
    await context.outlive(life)
    assert.equal(await context.store.get(key), undefined, 'the entry outlived its expiry')
  },

  'replace of an expired entry finds nothing': async (context) => {
    const revision = await context.created(context.key(), 'x', context.soon)
    await context.outlive(context.soon)
    const outcome = await context.store.replace(context.key(), 'y', revision, context.later)
    assert.deepEqual(outcome, { replaced: false, entry: undefined })
    assert.equal(await context.store.get(context.key()), undefined)
  },

  'delete of an expired entry removes nothing': async (context) => {
    const revision = await context.created(context.key(), 'x', context.soon)
    await context.outlive(context.soon)
    assert.equal(await context.store.delete(context.key(), revision), false)
    assert.equal(await context.store.delete(context.key()), false)
  },

  'create works after the expiry, under a new revision': async (context) => {
    const old = await context.created(context.key(), 'x', context.soon)
    await context.outlive(context.soon)
    const revision = await context.created(context.key(), 'new')
    assert.notEqual(revision, old)
    assert.equal(
      (await context.store.replace(context.key(), 'late', old, context.later)).replaced,
      false,
    )
    assert.equal(await context.value(context.key()), 'new')
  },

  'replace can move the expiry further away': async (context) => {
    const { key, life } = await context.whileLive(async (key, life) => {
      const revision = await context.created(key, 'x', life)
      const outcome = await context.store.replace(key, 'y', revision, context.later)
      assert.ok(outcome.replaced, 'the entry went before its expiry')
    })
    await context.outlive(life)
    assert.equal(await context.value(key), 'y', 'the entry went at its first expiry')
  },

  'replace can bring the expiry nearer': async (context) => {
    const revision = await context.created(context.key(), 'x')
    assert.equal(
      (await context.store.replace(context.key(), 'y', revision, context.soon)).replaced,
      true,
    )
    await context.outlive(context.soon)
    assert.equal(await context.store.get(context.key()), undefined)
  },

  'replace without a lifetime keeps the expiry': async (context) => {
    const kept = await context.created(context.key('kept'), 'x')
    const { key, life } = await context.whileLive(async (key, life) => {
      const revision = await context.created(key, 'x', life)
      const outcome = await context.store.replace(key, 'y', revision, {})
      assert.ok(outcome.replaced, 'the entry went before its expiry')
      assert.equal(await context.value(key), 'y', 'the entry went before its expiry')
    })
    assert.equal((await context.store.replace(context.key('kept'), 'y', kept, {})).replaced, true)
    await context.outlive(life)
    assert.equal(await context.store.get(key), undefined, 'the entry outlived its expiry')
    assert.equal(await context.value(context.key('kept')), 'y', 'the entry went before its expiry')
  },

  'a create that lost does not move the expiry': async (context) => {
    const { key, life } = await context.whileLive(async (key, life) => {
      await context.created(key, 'x', life)
      assert.equal(
        (await context.store.create(key, 'y', context.later)).created,
        false,
        'the entry went early',
      )
    })
    await context.outlive(life)
    assert.equal(await context.store.get(key), undefined)
  },

  'a write without a lifetime counts as written and is gone at once': async (context) => {
    assert.equal((await context.store.create(context.key(), 'x', NONE)).created, true)
    await context.outlive({ ttlMs: 1 })
    assert.equal(await context.store.get(context.key()), undefined)
    const revision = await context.created(context.key(), 'y')
    assert.equal((await context.store.replace(context.key(), 'z', revision, NONE)).replaced, true)
    await context.outlive({ ttlMs: 1 })
    assert.equal(await context.store.get(context.key()), undefined)
    await context.created(context.key(), 'free again')
  },

  'an expiry may be ten years away': async (context) => {
    await context.created(context.key(), 'x', DECADE)
    assert.equal(await context.value(context.key()), 'x')
    const { resetMs } = await context.store.increment(context.key(), 1, DECADE)
    assert.ok(resetMs > DECADE.ttlMs - 60_000, `resetMs is ${resetMs}`)
  }
}
