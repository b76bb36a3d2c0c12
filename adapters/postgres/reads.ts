import type { Entry } from '../../src/stores/store.js'
import type { Query } from './connections.js'
import type { Entries } from './entries.js'
import { TurnBatches } from './turn-batches.js'

/** Maximum number of keys in one statement. It bounds the size of a reply. */
const MAX_KEYS = 64

/**
 * Reads the entries that the requests of one turn of the event loop ask for, in one statement. A key
 * that several callers want is read once.
 */
export class Reads {
  private readonly batches: TurnBatches<Set<string>, ReadonlyMap<string, Entry>>

  constructor(entries: Entries, query: Query) {
    this.batches = new TurnBatches(
      () => new Set<string>(),
      (keys): Promise<ReadonlyMap<string, Entry>> => entries.getAll(query, [...keys]),
    )
  }

  /** Returns the live entry at `key`. */
  async get(key: string): Promise<Entry | undefined> {
    const { content: keys, sent } = this.batches.open(({ size }) => size >= MAX_KEYS)
    keys.add(key)
    return (await sent).get(key)
  }
}
