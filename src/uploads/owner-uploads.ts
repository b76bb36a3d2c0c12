import { digestOf } from '../idempotency/digest.js'
import { httpError } from '../http/errors.js'
import type { Entry, Store } from '../stores/store.js'

/** Compare-and-sets that may fail in a row. */
const TRIES = 50

/** Lists the unfinished uploads of each owner, to limit their number. */
export class OwnerUploads {
  /**
   * @param ttlMs - time after which an upload is certainly over
   * @param isUnfinished - returns whether the upload exists and waits for bytes
   */
  constructor(
    private readonly store: Store, private readonly most: number, private readonly ttlMs: number,
    private readonly isUnfinished: (id: string) => Promise<boolean>,
  ) {}

  /**
   * Adds an upload. Uploads that have expired are removed only when the list is full.
   *
   * @throws {HttpError} `too_many_uploads`
   */
  async add(owner: string, id: string): Promise<void> {
    await this.change(owner, async (ids) => {
      const kept = ids.length < this.most ? ids : await this.unfinished(ids)
      if (kept.length < this.most) return [...kept, id]
      throw httpError('too_many_uploads', { headers: { 'retry-after': '60' } })
    })
  }

  /** Removes an upload that is finished or was dropped. If the store fails, `add` does it later. */
  async remove(owner: string, id: string): Promise<void> {
    try {
      await this.change(owner, async (ids) => ids.filter((each) => each !== id))
    } catch {
      // The list is cleaned when it is full.
    }
  }

  private async change(
    owner: string, next: (ids: readonly string[]) => Promise<readonly string[]>,
  ): Promise<void> {
    const key = `upload-owner:${digestOf(owner)}`
    const { store, ttlMs } = this
    for (let tried = 0; tried < TRIES; tried++) {
      const entry = await store.get(key)
      const value = JSON.stringify(await next(idsOf(entry)))
      const isDone = entry === undefined
        ? (await store.create(key, value, { ttlMs })).created
        : (await store.replace(key, value, entry.revision, { ttlMs })).replaced
      if (isDone) return
    }
    throw httpError('overloaded', { headers: { 'retry-after': '1' } })
  }

  private async unfinished(ids: readonly string[]): Promise<readonly string[]> {
    const states = await Promise.all(ids.map((id) => this.isUnfinished(id)))
    return ids.filter((_, at) => states[at])
  }
}

function idsOf(entry: Entry | undefined): readonly string[] {
  return entry === undefined ? [] : JSON.parse(entry.value) as string[]
}
