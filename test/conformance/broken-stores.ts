import { setTimeout as pause } from 'node:timers/promises'
import { type Counter, type Entry, type Store } from '../../src/stores/store.js'
import { MemoryStore } from '../../adapters/memory/store.js'

/** A store that is wrong in one way, and the test that has to say so. */
export interface Broken<T> {
  readonly fault: string
  readonly caughtBy: string
  readonly make: () => T
}

/** Hands every call on, so that one of them can be replaced. */
export function storeLike(real: Store, faults: Partial<Store> = {}): Store {
  return {
    shared: real.shared,
    get: (key) => real.get(key),
    create: (key, value, options) => real.create(key, value, options),
    replace: (key, value, revision, options) => real.replace(key, value, revision, options),
    delete: (key, revision) => real.delete(key, revision),
    increment: (key, by, options) => real.increment(key, by, options),
    watch: (key, listener) => real.watch(key, listener),
    close: () => real.close(),
    ...faults
  }
}

/** Share of one caller in these stores. */
export const SHARE = { maxEntriesPerOwner: 20, maxBytesPerOwner: 16_000 }

const broken = (fault: string, caughtBy: string, faults: (real: MemoryStore) => Partial<Store>): Broken<Store> => ({
  fault,
  caughtBy,
  make: () => {
    const real = new MemoryStore(SHARE)
    return storeLike(real, faults(real))
  }
})

/** Counters of our own, to be wrong about. */
function countersOf(step: (counter: Counter, by: number, ttlMs: number) => Counter): Partial<Store> {
  const counters = new Map<string, { readonly value: number, readonly resetAt: number }>()
  return {
    increment: async (key, by, { ttlMs }) => {
      const now = performance.now()
      const there = counters.get(key)
      const live =
        there && there.resetAt > now
          ? { value: there.value, resetMs: there.resetAt - now }
          : { value: 0, resetMs: ttlMs }
      const counter = step(live, by, ttlMs)
      counters.set(key, { value: counter.value, resetAt: now + counter.resetMs })
      return counter
    }
  }
}

/** Watches of our own, told by the write itself. */
function watches(real: Store, tell: (listeners: Iterable<() => void>) => void): Partial<Store> {
  const byKey = new Map<string, Set<() => void>>()
  return {
    create: (key, value, options) => {
      const outcome = real.create(key, value, options)
      tell(byKey.get(key) ?? [])
      return outcome
    },
    replace: (key, value, revision, options) => {
      const outcome = real.replace(key, value, revision, options)
      tell(byKey.get(key) ?? [])
      return outcome
    },
    watch: async (key, listener) => {
      byKey.set(key, (byKey.get(key) ?? new Set()).add(listener))
      return () => { byKey.get(key)?.delete(listener) }
    }
  }
}

/** Every key goes through `change` first. */
const keys = (fault: string, caughtBy: string, change: (key: string) => string) => broken(fault, caughtBy, (real) => ({
  get: (key) => real.get(change(key)),
  create: (key, value, options) => real.create(change(key), value, options),
  replace: (key, value, revision, options) => real.replace(change(key), value, revision, options),
  delete: (key, revision) => real.delete(change(key), revision),
  increment: (key, by, options) => real.increment(change(key), by, options)
}))

/** Every value is written as `change` makes it. */
const values = (fault: string, caughtBy: string, change: (value: string) => string) =>
  broken(fault, caughtBy, (real) => ({
    create: (key, value, options) => real.create(key, change(value), options),
    replace: (key, value, revision, options) => real.replace(key, change(value), revision, options),
  }))

const ALIKE = 'similar keys are different keys'

const OWN_OLDEST = 'a caller above its share loses its own oldest entries, and other callers lose none'
const OLD_BEFORE_NEW = 'an old entry with a long lifetime is removed before a new one with a short lifetime'

export const BROKEN_STORES: readonly Broken<Store>[] = [
  broken('callers are ignored', OWN_OLDEST, (real) => ({
    create: (key, value, options) => real.create(key, value, { ...options, caller: undefined }),
  })),
  broken('all callers have one share', OWN_OLDEST, (real) => ({
    create: (key, value, options) => real.create(key, value, { ...options, caller: options.caller && 'all' }),
  })),
  broken('a caller loses what expires first', OLD_BEFORE_NEW, (real) => ({
    create: async (key, value, options) => {
      const outcome = await real.create(key, value, options)
      if (options.caller !== undefined && options.ttlMs < 600_000) await real.delete(key)
      return outcome
    },
  })),
  broken('bytes do not count', 'the share limits bytes', (real) => ({
    create: (key, value, options) =>
      real.create(key, value, value.length > 1000 ? { ...options, caller: undefined } : options),
  })),
  broken(
    'a caller loses pinned entries',
    'an entry that is not evictable stays, however many entries its caller has',
    (real) => ({
      create: (key, value, options) => real.create(key, value, { ...options, evictable: true }),
    }),
  ),
  broken('each write counts', 'an entry that is written often counts once', (real) => ({
    replace: (key, value, revision, options) => {
      void real.create(`${key}:${revision}`, '', { ttlMs: 600_000, evictable: true, caller: options.caller })
      return real.replace(key, value, revision, options)
    },
  })),
  broken('deleted entries count', 'an entry that was deleted counts no longer', (real) => ({
    delete: async (key, revision) => {
      const isDeleted = await real.delete(key, revision)
      void real.create(`${key}:deleted`, '', {
        ttlMs: 600_000,
        evictable: true,
        caller: key.replace(/deleted-\d+$/, 'ann'),
      })
      return isDeleted
    },
  })),
  broken('create looks, then writes', 'one of many creates wins, and all others get its entry', (real) => ({
    create: async (key, value, options) => {
      const there = await real.get(key)
      if (there) return { created: false, entry: there }
      await pause(1)
      await real.delete(key)
      return real.create(key, value, options)
    },
  })),
  broken(
    'create gives the loser its own value back',
    'create writes an entry once, and get and a second create return it',
    (real) => ({
      create: async (key, value, options) => {
        const outcome = await real.create(key, value, options)
        return outcome.created ? outcome : { created: false, entry: { ...outcome.entry, value } }
      },
    }),
  ),
  broken(
    'create writes over what is there',
    'create writes an entry once, and get and a second create return it',
    (real) => ({
      create: async (key, value, options) => {
        await real.delete(key)
        return real.create(key, value, options)
      },
    }),
  ),
  broken(
    'replace ignores the revision',
    'replace with an old revision changes nothing, and returns the entry',
    (real) => ({
      replace: async (key, value, _revision, options) =>
        real.replace(key, value, (await real.get(key))?.revision ?? '', options),
    }),
  ),
  broken('replace compares, then writes', 'one of many replaces with one revision wins', (real) => ({
    replace: async (key, value, revision, options) => {
      const there = await real.get(key)
      if (there?.revision !== revision) return { replaced: false, entry: there }
      await pause(1)
      return real.replace(key, value, (await real.get(key))?.revision ?? '', options)
    },
  })),
  broken('replace compares revisions as numbers', 'an unknown revision matches no entry', (real) => ({
    replace: (key, value, revision, options) => real.replace(key, value, String(Number(revision)), options),
  })),
  broken('replace creates where nothing is', 'replace of an absent entry writes nothing', (real) => ({
    replace: async (key, value, revision, options) => {
      if (await real.get(key)) return real.replace(key, value, revision, options)
      await real.create(key, value, { ...options, ttlMs: options.ttlMs ?? 600_000 })
      return { replaced: false, entry: undefined }
    },
  })),
  broken('replace leaves the first expiry', 'replace can prolong the lifetime', (real) => ({
    replace: (key, value, revision, { evictable }) => real.replace(key, value, revision, { evictable }),
  })),
  broken('replace without a lifetime makes one up', 'replace without a lifetime keeps the expiry', (real) => ({
    replace: (key, value, revision, options) => real.replace(key, value, revision, { ttlMs: 600_000, ...options }),
  })),
  broken('replace of the same value changes nothing', 'replace with the same value gives a new revision', (real) => ({
    replace: async (key, value, revision, options) => {
      const there = await real.get(key)
      return there?.value === value && there.revision === revision
        ? { replaced: true, revision }
        : real.replace(key, value, revision, options)
    },
  })),
  broken(
    'delete ignores the revision',
    'only the first delete of an entry returns true, and only with its revision if one is given',
    (real) => ({ delete: (key) => real.delete(key) }),
  ),
  broken(
    'delete always says true',
    'only the first delete of an entry returns true, and only with its revision if one is given',
    (real) => ({ delete: async (key, revision) => (await real.delete(key, revision)) || true }),
  ),
  broken('delete compares, then removes', 'one of a delete and a replace with one revision wins', (real) => ({
    delete: async (key, revision) => {
      if (revision !== undefined && (await real.get(key))?.revision !== revision) return false
      await pause(1)
      return real.delete(key)
    },
  })),
  broken(
    'revisions count anew after a delete',
    'a key never gets the same revision twice, not even after delete',
    (real) => {
      const revisions = new Map<string, string[]>()
      const number = (key: string, revision: string) => {
        const list = revisions.get(key) ?? []
        revisions.set(key, list)
        if (!list.includes(revision)) list.push(revision)
        return String(list.indexOf(revision) + 1)
      }
      const outside = (key: string, entry: Entry) => ({ ...entry, revision: number(key, entry.revision) })
      const inside = (key: string, revision: string) => revisions.get(key)?.[Number(revision) - 1] ?? 'none'
      return {
        get: async (key) => {
          const entry = await real.get(key)
          return entry && outside(key, entry)
        },
        create: async (key, value, options) => {
          const outcome = await real.create(key, value, options)
          if (!outcome.created) return { created: false, entry: outside(key, outcome.entry) }
          revisions.delete(key)
          return { created: true, revision: number(key, outcome.revision) }
        },
        replace: async (key, value, revision, options) => {
          const outcome = await real.replace(key, value, inside(key, revision), options)
          if (outcome.replaced) return { replaced: true, revision: number(key, outcome.revision) }
          return { replaced: false, entry: outcome.entry && outside(key, outcome.entry) }
        },
        delete: (key, revision) => real.delete(key, revision === undefined ? undefined : inside(key, revision)),
      }
    },
  ),
  broken(
    'callers share the entry that is kept',
    'a caller that changes a returned entry does not change the stored one',
    (real) => {
      const kept = new Map<string, Entry>()
      return {
        get: async (key) => {
          const entry = await real.get(key)
          if (entry === undefined) return undefined
          kept.set(key, kept.get(key) ?? entry)
          return kept.get(key)
        },
      }
    },
  ),
  broken(
    'evictable entries are not kept apart',
    'an evictable entry may disappear early, and other entries may not',
    (real) => {
      let last: string | undefined
      return {
        create: async (key, value, options) => {
          if (options.evictable && last !== undefined) await real.delete(last)
          last = key
          return real.create(key, value, options)
        },
      }
    },
  ),
  broken(
    'half of a surrogate pair is replaced, as UTF-8 does',
    'keys and values that a store cannot keep are rejected with a TypeError',
    (real) => ({
      create: (key, value, options) => real.create(key.toWellFormed(), value.toWellFormed(), options),
    }),
  ),
  broken('a time that is no number is for ever', 'misuse rejects with a TypeError and changes nothing', (real) => ({
    create: (key, value, options) =>
      real.create(key, value, Number.isFinite(options.ttlMs) ? options : { ttlMs: 1e15 }),
  })),
  {
    fault: 'nothing expires',
    caughtBy: 'an entry exists before its expiry and not after it',
    make: () => {
      const start = Date.now()
      return new MemoryStore({ now: () => start })
    },
  },
  {
    fault: 'everything expires early',
    caughtBy: 'an entry exists before its expiry and not after it',
    make: () => storeLike(new MemoryStore(), { get: async () => undefined }),
  },
  broken('a lifetime is cut to seconds', 'an entry exists before its expiry and not after it', (real) => ({
    create: (key, value, options) =>
      real.create(key, value, { ...options, ttlMs: Math.floor(options.ttlMs / 100_000) * 100_000 }),
  })),
  broken(
    'a lifetime that is over is none',
    'a write with a negative lifetime succeeds and expires at once',
    (real) => ({
      create: (key, value, options) => real.create(key, value, { ttlMs: options.ttlMs < 0 ? 1e6 : options.ttlMs }),
    }),
  ),
  broken(
    'replace brings back what expired',
    'replace and delete find no expired entry, and create gives a new revision',
    (real) => {
      const gone = new Set<string>()
      return {
        create: (key, value, options) => {
          gone.add(key)
          return real.create(key, value, options)
        },
        replace: async (key, value, revision, options) => {
          if (gone.has(key) && !(await real.get(key))) await real.create(key, value, { ...options, ttlMs: 600_000 })
          return real.replace(key, value, revision, options)
        },
      }
    },
  ),
  broken(
    'each increment moves the expiry',
    'the first increment sets the lifetime, and the first one after the expiry sets it again',
    () => countersOf((counter, by, ttlMs) => ({ value: counter.value + by, resetMs: ttlMs })),
  ),
  broken('each increment tells its own lifetime', 'one of many first increments sets the lifetime for all', (real) => ({
    increment: async (key, by, options) => ({ ...(await real.increment(key, by, options)), resetMs: options.ttlMs }),
  })),
  broken('increment takes the sign away', 'a counter starts at 0 and adds positive and negative numbers', () =>
    countersOf((counter, by) => ({ ...counter, value: counter.value + Math.abs(by) })),
  ),
  broken('increment reads, then writes', 'each of many increments counts once', () => {
    const counts = new Map<string, number>()
    return {
      increment: async (key, by, { ttlMs }) => {
        const value = (counts.get(key) ?? 0) + by
        await pause(1)
        counts.set(key, value)
        return { value, resetMs: ttlMs }
      },
    }
  }),
  broken(
    'counters never expire',
    'the first increment sets the lifetime, and the first one after the expiry sets it again',
    (real) => ({
      increment: (key, by) => real.increment(key, by, { ttlMs: 1e9 }),
    }),
  ),
  broken('counters are entries', 'counters and entries have separate keys', (real) => ({
    increment: async (key, by, options) => {
      const there = await real.get(key)
      const value = Number(there?.value ?? 0) + by
      if (there) await real.replace(key, String(value), there.revision, options)
      else await real.create(key, String(value), options)
      return { value, resetMs: options.ttlMs }
    },
  })),
  keys('keys know no case', ALIKE, (key) => key.toLowerCase()),
  keys('keys are trimmed', ALIKE, (key) => key.trim()),
  keys('keys are normalised', ALIKE, (key) => key.normalize()),
  keys('keys are decoded', ALIKE, (key) => key.replace(/%62/g, 'b')),
  keys('keys are cut off', 'long keys are compared to the last character', (key) => key.slice(0, 255)),
  values('values are trimmed', 'every method returns values unchanged', (value) => value.trim()),
  values('an empty value is null', 'every method returns values unchanged', (value) => value || 'null'),
  values('values lose their byte order mark', 'every method returns values unchanged', (value) =>
    value.replace(/^\ufeff/, ''),
  ),
  values('values are Latin-1', 'every method returns values unchanged', (value) =>
    Buffer.from(value, 'latin1').toString('latin1'),
  ),
  values('large values are cut off', 'a value may have a megabyte', (value) => value.slice(0, 1_000_000)),
  broken(
    'a watch resolves before it is active',
    'a watch is active once its promise resolves, and reports each change',
    (real) => ({
      watch: async (key, listener) => {
        const watch = pause(30).then(() => real.watch(key, listener))
        return () => void watch.then((unwatch) => unwatch())
      },
    }),
  ),
  broken('a delete is not told', 'a watch is active once its promise resolves, and reports each change', (real) => {
    let silent = false
    return {
      delete: async (key, revision) => {
        silent = true
        const removed = await real.delete(key, revision)
        await pause(1)
        silent = false
        return removed
      },
      watch: (key, listener) =>
        real.watch(key, () => {
          if (!silent) listener()
        }),
    }
  }),
  broken('a notice comes before the write', 'a listener can read what was written', (real) => {
    const { watch, create } = watches(
      storeLike(real, { create: async () => ({ created: true, revision: '' }) }),
      (listeners) => {
        queueMicrotask(() => [...listeners].forEach((listener) => listener()))
      },
    )
    return {
      ...(watch && { watch }),
      create: async (key, value, options) => {
        await create?.(key, value, options)
        await pause(5)
        return real.create(key, value, options)
      },
    }
  }),
  broken('listeners are called inside the write', 'a listener is not called inside the call that writes', (real) =>
    watches(real, (listeners) => [...listeners].forEach((listener) => listener())),
  ),
  broken(
    'a listener that throws ends the others',
    'a listener that throws harms neither the writer nor other listeners',
    (real) =>
      watches(real, (listeners) =>
        queueMicrotask(() => {
          try {
            for (const listener of listeners) listener()
          } catch {
            // The first one ends them all.
          }
        }),
      ),
  ),
  broken(
    'nothing catches the error of a listener',
    'a listener that throws harms neither the writer nor other listeners',
    (real) =>
      watches(real, (listeners) => {
        for (const listener of listeners) queueMicrotask(listener)
      }),
  ),
  broken('listeners of one key are a set', 'a listener that watches twice has two watches', (real) =>
    watches(real, (listeners) => queueMicrotask(() => [...listeners].forEach((listener) => listener()))),
  ),
  broken('unsubscribe does nothing', 'a stopped watch gets no notice, and other watches do', (real) => ({
    watch: async (key, listener) => {
      await real.watch(key, listener)
      return () => undefined
    },
  })),
  broken(
    'a watch hears of every key',
    'each watch of a name is notified, and watches of other names are not',
    (real) => {
      const listeners = new Set<() => void>()
      return {
        create: async (key, value, options) => {
          const outcome = await real.create(key, value, options)
          for (const listener of listeners) listener()
          return outcome
        },
        watch: async (_key, listener) => {
          listeners.add(listener)
          return () => {
            listeners.delete(listener)
          }
        },
      }
    },
  ),
  broken(
    'close changes nothing',
    'every call after close rejects with a StoreUnavailableError, and close resolves again',
    () => ({ close: async () => undefined }),
  ),
  broken(
    'close can be called once',
    'every call after close rejects with a StoreUnavailableError, and close resolves again',
    (real) => {
      let closed = false
      return {
        close: async () => {
          if (closed) await new Promise(() => undefined)
          closed = true
          await real.close()
        },
      }
    },
  ),
  broken(
    'it calls itself shared',
    'a shared store shows what another process writes, and close ends only one of them',
    () => ({ shared: true }),
  ),
]
