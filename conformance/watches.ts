import assert from 'node:assert/strict'
import type { MaybePromise } from '../src/runtime/maybe-promise.js'
import type { Cases } from './runner.js'
import { together, type Waits } from './wait.js'

/** A store (entries by key) or an engine (tasks by id) for the cases of `watch`. */
export interface Watchable {
  watch(name: string, listener: () => void): MaybePromise<() => void>
  /** Creates an entry with the value `created`, in another process. Returns its version. */
  create(name: string): MaybePromise<string>
  /** Changes the value to `changed`. Returns the next version. */
  change(name: string, version: string): MaybePromise<string>
  remove(name: string, version: string): MaybePromise<unknown>
  /** Returns the value as the other process sees it. */
  read(name: string): Promise<string | undefined>
}

/** A watch, with the number of notices since the last `expect`. */
export interface Notices {
  count: number
  readonly stop: () => void
  /** Waits for a notice, and for repetitions of it. Fails with `what`. */
  expect(what: string): Promise<void>
}

/** Counts the notices of a watch. */
export async function notices(
  waits: Waits, watch: (listener: () => void) => MaybePromise<() => void>,
): Promise<Notices> {
  let count = 0
  const stop = await waits.soon(watch(() => { count++ }), 'watch resolves')
  return {
    get count() {
      return count
    },
    stop,
    expect: async (what) => {
      await waits.eventually(() => count > 0, `the watch reports ${what}`)
      await waits.quiet()
      count = 0
    },
  }
}

/** Returns the tests of `watch`. A notice may be repeated, so they expect at least one. */
export function watchCases<Context extends Waits>(
  open: (context: Context) => MaybePromise<Watchable>,
): Cases<Context> {
  return Object.fromEntries(Object.entries(CASES).map(([title, body]) => [title, async (context) => {
    const site = await open(context)
    const watched = (name = 'one') => notices(context, (listener) => site.watch(name, listener))
    await body({ waits: context, site, watched })
  }]))
}

interface Watching {
  readonly waits: Waits
  readonly site: Watchable
  /** Watches a name. Default `one`. */
  readonly watched: (name?: string) => Promise<Notices>
}

const CASES: Cases<Watching> = {
  'a watch is active once its promise resolves, and reports each change': async ({ site, watched }) => {
    const watch = await watched()
    const first = await site.create('one')
    await watch.expect('the creation')
    const second = await site.change('one', first)
    await watch.expect('the change')
    await site.remove('one', second)
    await watch.expect('the deletion')
    watch.stop()
  },

  'a listener can read what was written': async ({ waits, site }) => {
    let found: string | undefined
    const stop = await site.watch('one', () => {
      void site.read('one').then((value) => { found = value }, () => undefined)
    })
    const version = await site.create('one')
    await waits.eventually(() => found === 'created', 'a listener reads the creation')
    await site.change('one', version)
    await waits.eventually(() => found === 'changed', 'a listener reads the change')
    stop()
  },

  'a listener is not called inside the call that writes': async ({ site, watched, waits }) => {
    let isWriting = false
    let wasInside = false
    const stop = await site.watch('one', () => { wasInside ||= isWriting })
    const watch = await watched()
    const outside = async (write: () => MaybePromise<string>): Promise<string> => {
      isWriting = true
      const written = write()
      isWriting = false
      return written
    }
    const version = await outside(() => site.create('one'))
    await watch.expect('the creation')
    await outside(() => site.change('one', version))
    await watch.expect('the change')
    await waits.quiet()
    assert.equal(wasInside, false)
    for (const each of [stop, watch.stop]) each()
  },

  'each watch of a name is notified, and watches of other names are not': async ({ site, watched }) => {
    const watches = [await watched(), await watched()]
    const others = await Promise.all(['ones', 'on', 'ONE', 'o*'].map(watched))
    const began = performance.now()
    for (let n = 0; n < 20; n++) {
      const version = await site.create('one')
      await site.remove('one', await site.change('one', version))
    }
    for (const watch of watches) await watch.expect('the changes')
    // A store that cannot see changes calls all listeners at intervals, twice a second at most.
    const most = 2 + (performance.now() - began) / 500
    for (const { count } of others) assert.ok(count <= most, `${String(count)} notices`)
    for (const { stop } of [...watches, ...others]) stop()
  },

  'a stopped watch gets no notice, and other watches do': async ({ site, watched, waits }) => {
    const [stopped, late, watch] = [await watched(), await watched(), await watched()]
    stopped.stop()
    stopped.stop()
    const written = site.create('one')
    late.stop()
    const version = await written
    await watch.expect('the creation')
    watch.stop()
    const changed = await site.change('one', version)
    await waits.quiet()
    assert.deepEqual([stopped.count, late.count, watch.count], [0, 0, 0])
    const again = await watched()
    await site.remove('one', changed)
    await again.expect('the deletion')
    again.stop()
  },

  'a listener that watches twice has two watches': async ({ site, waits }) => {
    let count = 0
    const listener = (): void => { count++ }
    const first = await site.watch('one', listener)
    const second = await site.watch('one', listener)
    first()
    await site.create('one')
    await waits.eventually(() => count > 0, 'the other watch is notified')
    second()
  },

  'a hundred watches of one name and of many names are all notified': async ({ site, waits }) => {
    const notified = new Set<number>()
    const stops = await together(100, (n) => (
      site.watch(n < 50 ? 'one' : `name-${String(n)}`, () => { notified.add(n) })
    ))
    await site.create('one')
    await together(50, (n) => site.create(`name-${String(n + 50)}`))
    await waits.eventually(() => notified.size === 100, 'a hundred watches are notified')
    for (const stop of stops) stop()
  },

  'a listener that throws harms neither the writer nor other listeners': async ({ site, watched }) => {
    const error = new Error('A listener of a watch throws, on purpose.')
    const throws = (): void => { throw error }
    const uncaught = watchUncaught(error)
    const first = await site.watch('one', throws)
    const watch = await watched()
    const last = await site.watch('one', throws)
    const version = await site.create('one')
    await watch.expect('the creation')
    await site.change('one', version)
    await watch.expect('the change')
    for (const stop of [first, watch.stop, last]) stop()
    assert.equal(uncaught.stop(), 0, 'the error of a listener was not caught, which ends the process')
  },
}

/**
 * Counts uncaught errors. Otherwise the test runner would fail, and name no case. `stop` returns
 * the number.
 */
function watchUncaught(expected: Error): { stop(): number } {
  let count = 0
  const others = process.listeners('uncaughtException')
  const listener: NodeJS.UncaughtExceptionListener = (error, origin) => {
    if (error === expected) count++
    else for (const other of others) other(error, origin)
  }
  process.removeAllListeners('uncaughtException').on('uncaughtException', listener)
  return {
    stop: () => {
      process.off('uncaughtException', listener)
      for (const other of others) process.on('uncaughtException', other)
      return count
    },
  }
}
