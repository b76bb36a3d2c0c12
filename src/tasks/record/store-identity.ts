import { newId } from '../../runtime/random-id.js'
import type { Store } from '../../stores/store.js'
import { LONGEST_MS } from '../definition/bounds.js'

const KEY = 'identity'

/**
 * Tells one store from another: a random id that lies in the store, made by the first process that
 * asks. Jobs carry it, so that a worker whose queue is shared by applications with stores of their
 * own does not take a job of another application for a leftover of its own.
 */
export class StoreIdentity {
  private known: string | undefined

  constructor(private readonly store: Store) {}

  /**
   * The id as this process knows it; reads it at the first call. Rejects with a
   * `StoreUnavailableError`.
   */
  async read(): Promise<string> {
    return this.known ?? this.readAnew()
  }

  /**
   * Returns whether `id` names another store. Reads the id anew first: it changes when the store
   * was emptied.
   */
  async isForeign(id: string | undefined): Promise<boolean> {
    return id !== undefined && id !== this.known && id !== await this.readAnew()
  }

  private async readAnew(): Promise<string> {
    const id = newId()
    const made = await this.store.create(KEY, id, { ttlMs: LONGEST_MS })
    this.known = made.created ? id : made.entry.value
    return this.known
  }
}
