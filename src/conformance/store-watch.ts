import assert from 'node:assert/strict'
import { isStoreUnavailable } from '../stores/store.js'
import type { Cases } from './runner.js'
import type { StoreContext } from './store-context.js'
import { hintsWithoutChange, rejects, together } from './waiting.js'

/** Tests of `watch`. A notice may be repeated, so the tests expect at least one. */
export const watching: Cases<StoreContext> = {
  'a watch is active once its promise resolves, and tells of create, replace and delete':
    async (context) => {
      const watch = await context.watched()
      await changes(context, watch.heard)
      watch.stop()
    },

  'what was written is there for the listener to read': async (context) => {
    let read: string | undefined
    const unwatch = await context.store.watch(context.key(), () => {
      void context.value(context.key()).then((value) => { read = value }, () => undefined)
    })
    await context.second.create(context.key(), 'written', context.later)
    // A notice without a change may call the listener before the write.
    await context.eventually(() => read === 'written', 'a listener reads what was written')
    unwatch()
  },

  'a listener is not called inside the call that writes': async (context) => {
    let writing = false
    let inside = false
    let notices = 0
    const unwatch = await context.store.watch(context.key(), () => {
      notices++
      inside ||= writing
    })
    writing = true
    const written = context.store.create(context.key(), 'x', context.later)
    writing = false
    await written
    await context.eventually(() => notices > 0, 'the watch tells of the create')
    assert.equal(inside, false)
    unwatch()
  },

  'the changes of one key are not told to those who watch another': async (context) => {
    const others = await together(2, (i) => context.watched(context.key(['a*', 'a'][i])))
    const watch = await context.watched(context.key('ab'))
    const told = watch.heard('last change')
    const mayHear = hintsWithoutChange()
    for (let n = 0; n < 30; n++) {
      await context.created(context.key('ab'), 'x')
      await context.store.delete(context.key('ab'))
    }
    await told()
    await context.quiet()
    for (const { count } of others) assert.ok(count() <= mayHear(), `${count()} notices`)
    for (const { stop } of [...others, watch]) stop()
  },

  'after its unsubscribe a listener is not called, and a second one is harmless': async (context) => {
    const gone = await context.watched()
    const watch = await context.watched()
    gone.stop()
    gone.stop()
    const told = watch.heard('create')
    await context.created(context.key(), 'x')
    await told()
    await context.quiet()
    assert.equal(gone.count(), 0)
    watch.stop()
  },

  'an unsubscribe right after a write holds, and a key can be watched again': async (context) => {
    const late = await context.watched()
    const written = context.store.create(context.key(), 'x', context.later)
    late.stop()
    await written
    await context.quiet()
    assert.equal(late.count(), 0)
    const watch = await context.watched()
    const told = watch.heard('delete')
    await context.store.delete(context.key())
    await told()
    watch.stop()
  },

  'one listener twice is two watches': async (context) => {
    let notices = 0
    const listener = () => { notices++ }
    const first = await context.store.watch(context.key(), listener)
    const second = await context.store.watch(context.key(), listener)
    first()
    await context.created(context.key(), 'x')
    await context.eventually(() => notices > 0, 'the watch that is left tells of the create')
    second()
  },

  'a hundred watchers are all told, on one key and on many': async (context) => {
    const told = new Set<number>()
    const stop = await together(100, (i) => (
      context.store.watch(context.key(i < 50 ? 'one' : `${i}`), () => { told.add(i) })
    ))
    await context.created(context.key('one'), 'x')
    await together(50, (i) => context.second.create(context.key(`${i + 50}`), 'x', context.later))
    await context.eventually(() => told.size === 100, 'a hundred watchers are told')
    stop.forEach((unwatch) => unwatch())
  },

  'a listener that throws harms neither the writer nor other listeners': async (context) => {
    const throws = () => { throw new Error('a listener that throws, on purpose') }
    const first = await context.store.watch(context.key(), throws)
    const watch = await context.watched()
    const last = await context.store.watch(context.key(), throws)
    await changes(context, watch.heard)
    for (const stop of [first, watch.stop, last]) stop()
  },
}

/** Creates, replaces and deletes the entry of the test. Waits for `expect` after each step. */
async function changes(
  context: StoreContext, expect: (what: string) => () => Promise<void>,
): Promise<void> {
  let told = expect('create')
  const revision = await context.created(context.key(), 'one')
  await told()
  told = expect('replace')
  await context.replaced(context.key(), 'two', revision)
  await told()
  told = expect('delete')
  assert.equal(await context.store.delete(context.key()), true)
  await told()
}

/** Tests of `close` and shared data. */
export const closing: Cases<StoreContext> = {
  'after close every call rejects with a StoreUnavailableError': async (context) => {
    const { store } = context
    const revision = await context.created(context.key(), 'x')
    const unwatch = await store.watch(context.key(), () => undefined)
    await store.close()
    const calls: Record<string, () => unknown> = {
      get: () => store.get(context.key()),
      create: () => store.create(context.key('new'), 'x', context.later),
      replace: () => store.replace(context.key(), 'y', revision, context.later),
      delete: () => store.delete(context.key()),
      increment: () => store.increment(context.key(), 1, context.later),
      watch: () => store.watch(context.key(), () => undefined),
    }
    for (const [verb, call] of Object.entries(calls)) {
      await context.inTime(rejects(call(), isStoreUnavailable), `${verb}() after close rejects`)
    }
    unwatch()
  },

  'close may be called again': async (context) => {
    await context.store.close()
    await context.inTime(context.store.close(), 'a second close() resolves')
  },

  'a shared store shows what another writes; close ends only itself': async (context) => {
    const { store, second } = context
    const advice = 'the factory has to give a `second` store on the same data if, and only if, '
      + '`shared` is true'
    assert.equal(context.hasSecond, store.shared, advice)
    if (!store.shared) return
    const revision = await context.created(context.key(), 'one')
    assert.equal(await context.value(context.key(), second), 'one')
    await context.replaced(context.key(), 'two', revision, context.later, second)
    assert.equal(await context.value(context.key()), 'two')
    await context.count(context.key())
    assert.equal(await context.count(context.key(), 1, second), 2)
    await store.close()
    assert.equal(await context.value(context.key(), second), 'two')
    assert.equal(await second.delete(context.key()), true)
  },
}
