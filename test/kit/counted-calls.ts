// Counts the calls of the ports of an application: its engine, its store and its blobs.
import type { Blobs } from '../../src/stores/blobs.js'
import type { Store } from '../../src/stores/store.js'
import type { TaskEngine } from '../../src/engine/engine.js'

export interface Ports {
  readonly engine: TaskEngine
  readonly store: Store
  readonly blobs: Blobs
}

/** Number of calls by name, such as `engine.change`. */
export type Calls = Readonly<Record<string, number>>

/** The same ports, with a count of the calls that go through them. */
export interface CountedPorts extends Ports {
  /** Forgets the calls so far. */
  readonly reset: () => void
  /** Returns the calls since the last reset, ordered by name. */
  readonly calls: () => Calls
}

/** Wraps ports, so that each call of a function of theirs is counted. */
export function countedPorts({ engine, store, blobs }: Ports): CountedPorts {
  const counts = new Map<string, number>()
  const counted = <T extends object>(port: string, target: T): T => new Proxy(target, {
    get: (of, name) => {
      const value: unknown = Reflect.get(of, name, of)
      if (typeof value !== 'function') return value
      return (...given: unknown[]): unknown => {
        const call = `${port}.${String(name)}`
        counts.set(call, (counts.get(call) ?? 0) + 1)
        return Reflect.apply(value, of, given) as unknown
      }
    },
  })
  return {
    engine: counted('engine', engine), store: counted('store', store), blobs: counted('blobs', blobs),
    reset: () => { counts.clear() },
    calls: () => Object.fromEntries([...counts].sort(([one], [other]) => (one < other ? -1 : 1))),
  }
}

export function totalOf(calls: Calls): number {
  return Object.values(calls).reduce((total, count) => total + count, 0)
}

/** Returns `17 calls: blobs.open 1, blobs.put 3, …`. */
export function describeCalls(calls: Calls): string {
  const names = Object.entries(calls).map(([name, count]) => `${name} ${count}`)
  return `${totalOf(calls)} calls: ${names.join(', ')}`
}
