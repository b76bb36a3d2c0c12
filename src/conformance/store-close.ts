import assert from 'node:assert/strict'
import { isStoreUnavailable } from '../stores/store.js'
import { type Cases } from './runner.js'
import { type StoreBench } from './store-bench.js'
import { rejects } from './waiting.js'

/** The end of a store, and what two of them share. */
export const closing: Cases<StoreBench> = {
  'after close every call rejects with a StoreUnavailableError': async (bench) => {
    const { store } = bench
    const revision = await bench.created(bench.key(), 'x')
    await store.close()
    const calls: Record<string, () => unknown> = {
      get: () => store.get(bench.key()),
      create: () => store.create(bench.key('new'), 'x', bench.later),
      replace: () => store.replace(bench.key(), 'y', revision, bench.later),
      delete: () => store.delete(bench.key()),
      increment: () => store.increment(bench.key(), 1, bench.later),
      watch: () => store.watch(bench.key(), () => undefined)
    }
    for (const [verb, call] of Object.entries(calls)) {
      await bench.inTime(rejects(call(), isStoreUnavailable), `${verb}() after close rejects`)
    }
  },

  'close may be called again': async (bench) => {
    await bench.store.close()
    await bench.inTime(bench.store.close(), 'a second close() resolves')
  },

  'an unsubscribe after close is harmless': async (bench) => {
    const unwatch = await bench.store.watch(bench.key(), () => undefined)
    await bench.store.close()
    unwatch()
  },

  'a shared store shows what another writes; close ends only itself': async (bench) => {
    if (!bench.store.shared) {
      assert.equal(bench.hasSecond, false, 'the factory gives a second store on the same data, so `shared` should be true')
      return
    }
    assert.ok(bench.hasSecond, 'the factory has to give a `second` store on the same data, because `shared` is true')
    const revision = await bench.created(bench.key(), 'one')
    assert.equal(await bench.value(bench.key(), bench.second), 'one')
    assert.equal((await bench.second.replace(bench.key(), 'two', revision, bench.later)).replaced, true)
    assert.equal(await bench.value(bench.key()), 'two')
    await bench.store.increment(bench.key(), 1, bench.later)
    assert.equal((await bench.second.increment(bench.key(), 1, bench.later)).value, 2)
    await bench.store.close()
    assert.equal(await bench.value(bench.key(), bench.second), 'two')
    assert.equal(await bench.second.delete(bench.key()), true)
  }
}
