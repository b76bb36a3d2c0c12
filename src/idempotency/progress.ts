import type { HttpResponse } from '../http/exchange.js'
import type { Revision, Store } from '../stores/store.js'
import { stillRunning, toHeld } from './claim.js'
import { replay } from './stored-answer.js'

/**
 * Progress of work with an Idempotency-Key, which a later request with this key continues. Stored
 * beside the claim of the key, because a claim without an answer expires with its process.
 */
export class KeyedProgress {
  private revision: Revision | undefined
  private readonly key: string

  /**
   * @param claim - store key of the claim; see `claimKey`
   * @param kept - `ttlMs`: time that progress is kept after it was saved, in milliseconds. `owner`:
   * party that it counts for. An owner that has too much loses its oldest progress.
   */
  constructor(
    private readonly store: Store, private readonly claim: string,
    private readonly kept: { readonly ttlMs: number, readonly owner: string },
  ) {
    this.key = `${claim}:progress`
  }

  /** Returns the JSON text that was saved last; `undefined` if there is none. */
  async read(): Promise<string | undefined> {
    const entry = await this.store.get(this.key)
    this.revision = entry?.revision
    return entry?.value
  }

  /**
   * Returns the answer that is stored for the key; `undefined` if the work has not ended. The caller
   * has no body to compare with that of the first request.
   */
  async answer(): Promise<HttpResponse | undefined> {
    const entry = await this.store.get(this.claim)
    const claim = entry && toHeld(entry).claim
    return claim?.answer ? replay(claim.answer) : undefined
  }

  /**
   * Saves the progress as JSON text. Call `read` before the first save. If the work is complete, the
   * progress counts for its owner. Other progress is never removed early, because the work would
   * be done again.
   *
   * @throws {HttpError} 409 `idempotent_request_running`: another request has saved progress since
   */
  async save(text: string, isComplete: boolean): Promise<void> {
    const { store, key, revision } = this
    const { ttlMs, owner } = this.kept
    const kept = isComplete ? { ttlMs, owner, evictable: true } : { ttlMs }
    const outcome = revision === undefined
      ? await store.create(key, text, kept)
      : await store.replace(key, text, revision, kept)
    if ('revision' in outcome) {
      this.revision = outcome.revision
      return
    }
    // The write succeeded, but its reply was lost.
    if (outcome.entry?.value !== text) throw stillRunning()
    this.revision = outcome.entry.revision
  }
}
