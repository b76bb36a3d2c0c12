import timers from 'node:timers'
import type { Entry } from '../../src/stores/store.js'
import type { Query } from './connections.js'
import type { Entries } from './entries.js'

// Captured at once: a server keeps real time, also under a test's fake timers.
const { setImmediate } = timers

/** Maximum number of keys in one statement. It bounds the size of a reply. */
const MAX_KEYS = 64

/**
 * Reads the entries of one turn of the event loop in one statement, such as the records of a page,
 * or those of requests that arrived together. A key that several callers want is read once.
 */
export class Reads {
  private batch: Batch | undefined

  constructor(private readonly entries: Entries, private readonly query: Query) {}

  /** Returns the live entry at `key`. */
  async get(key: string): Promise<Entry | undefined> {
    if (this.batch && this.batch.keys.size >= MAX_KEYS) this.send()
    const batch = this.batch ?? this.begin()
    batch.keys.add(key)
    return (await batch.found).get(key)
  }

  private begin(): Batch {
    const batch = this.batch = new Batch()
    setImmediate(() => { if (this.batch === batch) this.send() })
    return batch
  }

  private send(): void {
    const { batch } = this
    if (!batch) return
    this.batch = undefined
    batch.resolve(this.entries.getAll(this.query, [...batch.keys]))
  }
}

/** Entries that are read together. */
class Batch {
  readonly keys = new Set<string>()
  declare resolve: (found: Promise<ReadonlyMap<string, Entry>>) => void
  readonly found = new Promise<ReadonlyMap<string, Entry>>((resolve) => { this.resolve = resolve })
}
