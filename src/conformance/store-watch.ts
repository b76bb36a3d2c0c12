import assert from 'node:assert/strict'
import { type Cases } from './runner.js'
import { type StoreBench } from './store-bench.js'
import { together } from './waiting.js'

/** Change notice. A notice may be repeated, so these tests count from one up. */
export const watching: Cases<StoreBench> = {
  'a watch is active once its promise resolves, and tells of create, replace and delete': async (bench) => {
    let notices = 0
    const unwatch = await bench.store.watch(bench.key(), () => { notices++ })
    await changes(bench, (what) => heard(bench, () => notices, what))
    unwatch()
  },

  'a key that was created without notice is there, and later writes of it give notice': async (bench) => {
    let notices = 0
    const unwatch = await bench.store.watch(bench.key(), () => { notices++ })
    const created = await bench.store.create(bench.key(), 'x', { ...bench.later, notify: false })
    assert.ok(created.created, 'the entry was not written')
    assert.equal(await bench.value(bench.key()), 'x')
    const before = notices
    await bench.store.replace(bench.key(), 'y', created.revision, bench.later)
    await bench.eventually(() => notices > before, 'the watch tells of the replace')
    unwatch()
  },

  'a watch tells of what the second store writes': async (bench) => {
    let notices = 0
    const unwatch = await bench.store.watch(bench.key(), () => { notices++ })
    const told = heard(bench, () => notices, 'create in the second store')
    await bench.second.create(bench.key(), 'x', bench.later)
    await told()
    unwatch()
  },

  'what was written is there for the listener to read': async (bench) => {
    const read: (string | undefined)[] = []
    const unwatch = await bench.store.watch(bench.key(), () => {
      void bench.value(bench.key()).then((value) => read.push(value), () => read.push('failed'))
    })
    await bench.second.create(bench.key(), 'written', bench.later)
    await bench.eventually(() => read.length > 0, 'the listener was called and read')
    assert.ok(read.every((value) => value === 'written'), `the listener read ${String(read[0])}`)
    unwatch()
  },

  'a listener is not called inside the call that writes': async (bench) => {
    let writing = false
    let inside = false
    let notices = 0
    const unwatch = await bench.store.watch(bench.key(), () => {
      notices++
      inside ||= writing
    })
    writing = true
    const written = bench.store.create(bench.key(), 'x', bench.later)
    writing = false
    await written
    await bench.eventually(() => notices > 0, 'the watch tells of the create')
    assert.equal(inside, false)
    unwatch()
  },

  'a watch tells nothing of other keys': async (bench) => {
    let others = 0
    let notices = 0
    const stop = [
      await bench.store.watch(bench.key('a*'), () => { others++ }),
      await bench.store.watch(bench.key('a'), () => { others++ }),
      await bench.store.watch(bench.key('ab'), () => { notices++ })
    ]
    await bench.created(bench.key('ab'), 'x')
    await bench.eventually(() => notices > 0, 'the watch tells of the create')
    await bench.quiet()
    assert.equal(others, 0)
    stop.forEach((unwatch) => unwatch())
  },

  'after its unsubscribe a listener is not called, and a second one is harmless': async (bench) => {
    let gone = 0
    let notices = 0
    const unwatch = await bench.store.watch(bench.key(), () => { gone++ })
    const stop = await bench.store.watch(bench.key(), () => { notices++ })
    unwatch()
    unwatch()
    await bench.created(bench.key(), 'x')
    await bench.eventually(() => notices > 0, 'the watch that is left tells of the create')
    await bench.quiet()
    assert.equal(gone, 0)
    stop()
  },

  'an unsubscribe right after a write holds, and a key can be watched again': async (bench) => {
    let late = 0
    const unwatch = await bench.store.watch(bench.key(), () => { late++ })
    const written = bench.store.create(bench.key(), 'x', bench.later)
    unwatch()
    await written
    await bench.quiet()
    assert.equal(late, 0)
    let notices = 0
    const stop = await bench.store.watch(bench.key(), () => { notices++ })
    await bench.store.delete(bench.key())
    await bench.eventually(() => notices > 0, 'the new watch tells of the delete')
    stop()
  },

  'one listener twice is two watches': async (bench) => {
    let notices = 0
    const listener = () => { notices++ }
    const first = await bench.store.watch(bench.key(), listener)
    const second = await bench.store.watch(bench.key(), listener)
    first()
    await bench.created(bench.key(), 'x')
    await bench.eventually(() => notices > 0, 'the watch that is left tells of the create')
    second()
  },

  'a hundred watchers are all told, on one key and on many': async (bench) => {
    const told = new Set<number>()
    const stop = await together(100, (i) => bench.store.watch(bench.key(i < 50 ? 'one' : `${i}`), () => { told.add(i) }))
    await bench.created(bench.key('one'), 'x')
    await together(50, (i) => bench.second.create(bench.key(`${i + 50}`), 'x', bench.later))
    await bench.eventually(() => told.size === 100, 'a hundred watchers are told')
    stop.forEach((unwatch) => unwatch())
  },

  'a listener that throws harms neither the writer nor other listeners': async (bench) => {
    let notices = 0
    const throws = () => { throw new Error('a listener that throws, on purpose') }
    const stop = [
      await bench.store.watch(bench.key(), throws),
      await bench.store.watch(bench.key(), () => { notices++ }),
      await bench.store.watch(bench.key(), throws)
    ]
    await changes(bench, (what) => heard(bench, () => notices, what))
    stop.forEach((unwatch) => unwatch())
  }
}

/**
 * Creates, replaces and deletes the test's entry, and waits for what `expect` waits for after each.
 */
async function changes(bench: StoreBench, expect: (what: string) => () => Promise<void>): Promise<void> {
  let told = expect('create')
  const revision = await bench.created(bench.key(), 'one')
  await told()
  told = expect('replace')
  assert.equal((await bench.store.replace(bench.key(), 'two', revision, bench.later)).replaced, true)
  await told()
  told = expect('delete')
  assert.equal(await bench.store.delete(bench.key()), true)
  await told()
}

/** Remembers how many notices there are now, and later waits until there are more. */
function heard(bench: StoreBench, notices: () => number, what: string): () => Promise<void> {
  const before = notices()
  return () => bench.eventually(() => notices() > before, `the watch tells of the ${what}`)
}
