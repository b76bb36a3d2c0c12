import assert from 'node:assert/strict'
import { type Cases } from './runner.js'
import { type StoreContext } from './store-context.js'
import { together } from './waiting.js'

/** Tests of `watch`. A notice may be repeated, so the tests expect at least one. */
export const watching: Cases<StoreContext> = {
  'a watch is active once its promise resolves, and tells of create, replace and delete': async (
    context,
  ) => {
    let notices = 0
    const unwatch = await context.store.watch(context.key(), () => {
      notices++
    })
    await changes(context, (what) => heard(context, () => notices, what))
    unwatch()
  },

  'a watch tells of what the second store writes': async (context) => {
    let notices = 0
    const unwatch = await context.store.watch(context.key(), () => {
      notices++
    })
    const told = heard(context, () => notices, 'create in the second store')
    await context.second.create(context.key(), 'x', context.later)
    await told()
    unwatch()
  },

  'what was written is there for the listener to read': async (context) => {
    const read: (string | undefined)[] = []
    const unwatch = await context.store.watch(context.key(), () => {
      void context.value(context.key()).then(
        (value) => read.push(value),
        () => read.push('failed'),
      )
    })
    await context.second.create(context.key(), 'written', context.later)
    await context.eventually(() => read.length > 0, 'the listener was called and read')
    assert.ok(
      read.every((value) => value === 'written'),
      `the listener read ${String(read[0])}`,
    )
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

  'a watch tells nothing of other keys': async (context) => {
    let others = 0
    let notices = 0
    const stop = [
      await context.store.watch(context.key('a*'), () => {
        others++
      }),
      await context.store.watch(context.key('a'), () => {
        others++
      }),
      await context.store.watch(context.key('ab'), () => {
        notices++
      }),
    ]
    await context.created(context.key('ab'), 'x')
    await context.eventually(() => notices > 0, 'the watch tells of the create')
    await context.quiet()
    assert.equal(others, 0)
    stop.forEach((unwatch) => unwatch())
  },

  'after its unsubscribe a listener is not called, and a second one is harmless': async (
    context,
  ) => {
    let gone = 0
    let notices = 0
    const unwatch = await context.store.watch(context.key(), () => {
      gone++
    })
    const stop = await context.store.watch(context.key(), () => {
      notices++
    })
    unwatch()
    unwatch()
    await context.created(context.key(), 'x')
    await context.eventually(() => notices > 0, 'the watch that is left tells of the create')
    await context.quiet()
    assert.equal(gone, 0)
    stop()
  },

  'an unsubscribe right after a write holds, and a key can be watched again': async (context) => {
    let late = 0
    const unwatch = await context.store.watch(context.key(), () => {
      late++
    })
    const written = context.store.create(context.key(), 'x', context.later)
    unwatch()
    await written
    await context.quiet()
    assert.equal(late, 0)
    let notices = 0
    const stop = await context.store.watch(context.key(), () => {
      notices++
    })
    await context.store.delete(context.key())
    await context.eventually(() => notices > 0, 'the new watch tells of the delete')
    stop()
  },

  'one listener twice is two watches': async (context) => {
    let notices = 0
    const listener = () => {
      notices++
    }
    const first = await context.store.watch(context.key(), listener)
    const second = await context.store.watch(context.key(), listener)
    first()
    await context.created(context.key(), 'x')
    await context.eventually(() => notices > 0, 'the watch that is left tells of the create')
    second()
  },

  'a hundred watchers are all told, on one key and on many': async (context) => {
    const told = new Set<number>()
    const stop = await together(100, (i) =>
      context.store.watch(context.key(i < 50 ? 'one' : `${i}`), () => {
        told.add(i)
      }),
    )
    await context.created(context.key('one'), 'x')
    await together(50, (i) => context.second.create(context.key(`${i + 50}`), 'x', context.later))
    await context.eventually(() => told.size === 100, 'a hundred watchers are told')
    stop.forEach((unwatch) => unwatch())
  },

  'a listener that throws harms neither the writer nor other listeners': async (context) => {
    let notices = 0
    const throws = () => {
      throw new Error('a listener that throws, on purpose')
    }
    const stop = [
      await context.store.watch(context.key(), throws),
      await context.store.watch(context.key(), () => {
        notices++
      }),
      await context.store.watch(context.key(), throws),
    ]
    await changes(context, (what) => heard(context, () => notices, what))
    stop.forEach((unwatch) => unwatch())
  },
}

/** Creates, replaces and deletes the entry of the test. Waits for `expect` after each step. */
async function changes(
  context: StoreContext,
  expect: (what: string) => () => Promise<void>,
): Promise<void> {
  let told = expect('create')
  const revision = await context.created(context.key(), 'one')
  await told()
  told = expect('replace')
  assert.equal(
    (await context.store.replace(context.key(), 'two', revision, context.later)).replaced,
    true,
  )
  await told()
  told = expect('delete')
  assert.equal(await context.store.delete(context.key()), true)
  await told()
}

/** Returns a function that waits for a notice after this call. */
function heard(context: StoreContext, notices: () => number, what: string): () => Promise<void> {
  const before = notices()
  return () => context.eventually(() => notices() > before, `the watch tells of the ${what}`)
}
