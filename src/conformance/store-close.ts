import assert from 'node:assert/strict'
import { isStoreUnavailable } from '../stores/store.js'
import { type Cases } from './runner.js'
import { type StoreContext } from './store-context.js'
import { rejects } from './waiting.js'

/** Tests of `close` and shared data. */
export const closing: Cases<StoreContext> = {
  'after close every call rejects with a StoreUnavailableError': async (context) => {
    const { store } = context
    const revision = await context.created(context.key(), 'x')
    await store.close()
    const calls: Record<string, () => unknown> = {
      get: () => store.get(context.key()),
      create: () => store.create(context.key('new'), 'x', context.later),
      replace: () => store.replace(context.key(), 'y', revision, context.later),
      delete: () => store.delete(context.key()),
      increment: () => store.increment(context.key(), 1, context.later),
      watch: () => store.watch(context.key(), () => undefined)
    }
    for (const [verb, call] of Object.entries(calls)) {
      await context.inTime(rejects(call(), isStoreUnavailable), `${verb}() after close rejects`)
    }
  },

  'close may be called again': async (context) => {
    await context.store.close()
    await context.inTime(context.store.close(), 'a second close() resolves')
  },

  'an unsubscribe after close is harmless': async (context) => {
    const unwatch = await context.store.watch(context.key(), () => undefined)
    await context.store.close()
    unwatch()
  },

  'a shared store shows what another writes; close ends only itself': async (context) => {
    if (!context.store.shared) {
      assert.equal(
        context.hasSecond,
        false,
        'the factory gives a second store on the same data, so `shared` should be true',
      )
      return
    }
    assert.ok(
      context.hasSecond,
      'the factory has to give a `second` store on the same data, because `shared` is true',
    )
    const revision = await context.created(context.key(), 'one')
    assert.equal(await context.value(context.key(), context.second), 'one')
    assert.equal(
      (await context.second.replace(context.key(), 'two', revision, context.later)).replaced,
      true,
    )
    assert.equal(await context.value(context.key()), 'two')
    await context.store.increment(context.key(), 1, context.later)
    assert.equal((await context.second.increment(context.key(), 1, context.later)).value, 2)
    await context.store.close()
    assert.equal(await context.value(context.key(), context.second), 'two')
    assert.equal(await context.second.delete(context.key()), true)
  }
}
