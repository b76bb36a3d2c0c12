import assert from 'node:assert/strict'
import { isStoreUnavailable } from '../src/stores/store.js'
import type { Cases } from './runner.js'
import type { StoreContext } from './store-context.js'
import { reject } from './wait.js'
import { watchCases } from './watches.js'

/** Tests of `watch`. */
export const watching = watchCases<StoreContext>((context) => ({
  watch: (name, listener) => context.store.watch(context.key(name), listener),
  create: (name) => context.created(context.key(name), 'created', context.later, context.second),
  change: (name, revision) => context.replaced(context.key(name), 'changed', revision),
  remove: (name, revision) => context.store.delete(context.key(name), revision),
  read: (name) => context.value(context.key(name), context.second),
}))

/** Tests of `close` and shared data. */
export const closing: Cases<StoreContext> = {
  'every call after close rejects with a StoreUnavailableError, and close resolves again': async (context) => {
    const { store } = context
    const revision = await context.created(context.key(), 'x')
    const unwatch = await store.watch(context.key(), () => undefined)
    await store.close()
    await reject(context, isStoreUnavailable, {
      get: () => store.get(context.key()),
      create: () => store.create(context.key('new'), 'x', context.later),
      replace: () => store.replace(context.key(), 'y', revision, context.later),
      delete: () => store.delete(context.key()),
      increment: () => store.increment(context.key(), 1, context.later),
      watch: () => store.watch(context.key(), () => undefined),
    })
    unwatch()
    await context.soon(store.close(), 'a second close() resolves')
  },

  'a shared store shows what another process writes, and close ends only one of them': async (context) => {
    const { store, second } = context
    const advice = 'the factory must return `second`, a store on the same data, if and only if `shared` is true'
    assert.equal(second !== store, store.shared, advice)
    if (!store.shared) return
    const revision = await context.created(context.key(), 'one')
    assert.equal(await context.value(context.key(), second), 'one')
    const outcome = await second.replace(context.key(), 'two', revision, context.later)
    assert.ok(outcome.replaced, 'the second store did not accept the current revision')
    assert.equal(await context.value(context.key()), 'two')
    await context.count(context.key())
    assert.equal(await context.count(context.key(), 1, second), 2)
    await store.close()
    assert.equal(await context.value(context.key(), second), 'two')
    assert.equal(await second.delete(context.key()), true)
  },
}
