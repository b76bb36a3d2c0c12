import { after, type MaybePromise } from '../../runtime/maybe-promise.js'
import type { Created, Existing, Replaced, Conflict, Revision, Store } from '../../stores/store.js'
import type { TaskIndex } from '../../stores/task-index.js'
import { decode, encode, toSnapshot, type TaskSnapshot } from './codec.js'
import { taskKey } from './ids.js'
import { toListed } from './listed.js'
import { partyOf } from './owner.js'
import {
  change, retried, type RetryChange, type TaskChange, type TaskRecord,
} from './record.js'
import { isFinal } from './state.js'
import { StoreRetry } from './store-retry.js'
import { publishMove, taskChannel } from './task-channel.js'

/** A record and the revision that it was read or written at. */
export interface VersionedRecord {
  readonly record: TaskRecord
  readonly revision: Revision
}

/** A record after a move. */
export interface Moved extends VersionedRecord {
  /** `false`: the record was left as it is. */
  readonly moved: boolean
}

/** Outcome of `restart`. */
export interface Restarted extends VersionedRecord {
  /** The record before; `undefined` if this call has not changed it. */
  readonly before: TaskRecord | undefined
}

/** Returns the change to a record, or `undefined` to leave it as it is. */
type Decide = (record: TaskRecord) => TaskChange | undefined

/**
 * Reads and writes task records. Every change is a compare-and-set against the newest record, so
 * progress, cancel and the end of a run cannot overwrite each other.
 */
export class Ledger {
  /** Bounds how long moves and reads of a run wait for the store. */
  readonly retry = new StoreRetry()

  /**
   * @param holder - names this process in records whose work ends with it
   * @param index - lists the tasks; gets each change of a status
   */
  constructor(
    readonly store: Store, readonly holder?: string, private readonly index?: TaskIndex,
  ) {}

  /** Reads a record to change it. */
  async load(id: string): Promise<VersionedRecord | undefined> {
    const entry = await this.store.get(taskKey(id))
    return entry && { record: decode(id, entry.value), revision: entry.revision }
  }

  /** Reads a record to change it. Retries while the store is unavailable. */
  async loadWithRetry(id: string): Promise<VersionedRecord | undefined> {
    return this.retry.run(() => this.load(id))
  }

  /**
   * Reads what a status answer needs. Returns no promise if the store does not, because a poll in
   * memory that never waits costs 5 % less.
   */
  read(id: string): MaybePromise<TaskSnapshot | undefined> {
    return after(this.store.get(taskKey(id)), (entry) => entry && toSnapshot(id, entry.value))
  }

  /** Returns whether the store answers. Never rejects. */
  async isReachable(): Promise<boolean> {
    try {
      await this.store.get('health')
      return true
    } catch {
      return false
    }
  }

  /**
   * Writes a new record unless the id is taken.
   *
   * @param options.text - JSON text of the record for clients
   * @param options.isFresh - the id is new and random, so nobody can watch it
   */
  async create(
    record: TaskRecord, { text, isFresh }: { readonly text: string, readonly isFresh: boolean },
  ): Promise<Created | Existing> {
    const ttlMs = record.expiresAt - record.createdAt
    return this.store.create(taskKey(record.id), encode(record, text), { ttlMs, notify: !isFresh })
  }

  /**
   * Changes a record, beginning with the version that the caller has. Calls `decide` again with the
   * newest record if another writer was faster.
   *
   * @returns the record as it is now; `undefined` if there is none.
   */
  async move(from: VersionedRecord, decide: Decide): Promise<Moved | undefined> {
    return this.tryMove(from, decide, false)
  }

  /** Moves a record as `move` does, and retries while the store is unavailable. */
  async moveWithRetry(from: VersionedRecord, decide: Decide): Promise<Moved | undefined> {
    return this.tryMove(from, decide, true)
  }

  /**
   * Writes that a failed or cancelled task waits for a run of another job. Does nothing if another
   * call was faster. `undefined` if the record is gone.
   */
  async restart(from: VersionedRecord, to: RetryChange): Promise<Restarted | undefined> {
    const { job } = from.record
    let before: TaskRecord | undefined
    const moved = await this.write(from, (record) => {
      before = record
      const isLost = record.job !== job || (record.state !== 'failed' && record.state !== 'cancelled')
      return isLost ? undefined : retried(record, to)
    }, false)
    return moved && { ...moved, before: moved.moved ? before : undefined }
  }

  /**
   * Takes back a `restart` whose job found no space in the queue. Returns `false` if the record was
   * changed meanwhile.
   */
  async restore(from: VersionedRecord, before: TaskRecord): Promise<boolean> {
    const record = { ...before, version: from.record.version + 1 }
    const outcome = await this.replace(from, record, before.expiresAt - Date.now())
    if (outcome.replaced) this.noteListed(record)
    return outcome.replaced
  }

  /** Deletes a record at its revision. Returns whether this call deleted it. */
  async delete({ record, revision }: VersionedRecord): Promise<boolean> {
    const isDeleted = await this.store.delete(taskKey(record.id), revision)
    // Lists show no task without a record, and drop its entry, so failures do not matter.
    if (isDeleted) {
      await Promise.resolve(this.index?.drop([toListed(record)])).catch(() => undefined)
    }
    return isDeleted
  }

  /** Puts a record into the lists soon. Callers of `move` do so for a record that is final. */
  noteListed(record: TaskRecord): void {
    this.index?.putSoon(toListed(record))
  }

  private async tryMove(
    from: VersionedRecord, decide: Decide, retries: boolean,
  ): Promise<Moved | undefined> {
    return this.write(from, (record) => {
      const wanted = decide(record)
      return wanted && change(record, wanted)
    }, retries)
  }

  /** @param toNext - returns the new record; `undefined` to leave the record as it is */
  private async write(
    from: VersionedRecord, toNext: (record: TaskRecord) => TaskRecord | undefined,
    retries: boolean,
  ): Promise<Moved | undefined> {
    let current = from
    for (let tries = 1; ; tries++) {
      const next = toNext(current.record)
      if (!next) return { ...current, moved: false }
      try {
        const outcome = await this.replace(current, next)
        if (outcome.replaced) {
          if (taskChannel.hasSubscribers) publishMove(current.record, next)
          if (!isFinal(next.state) && isListedAnew(current.record, next)) this.noteListed(next)
          return { record: next, revision: outcome.revision, moved: true }
        }
        if (!outcome.entry) return undefined
        // This may be an earlier write of this very move whose answer was lost. `decide` finds out.
        current = { record: decode(next.id, outcome.entry.value), revision: outcome.entry.revision }
        tries = 0
      } catch (error) {
        if (!retries) throw error
        await this.retry.backOff(error, tries, this.store.shared)
      }
    }
  }

  private replace(
    { record, revision }: VersionedRecord, next: TaskRecord, ttlMs = newLifetime(record, next),
  ): Promise<Replaced | Conflict> | Replaced | Conflict {
    const options = isFinal(next.state)
      ? { ttlMs, evictable: true, owner: partyOf(next) } : { ttlMs, evictable: false }
    return this.store.replace(taskKey(next.id), encode(next), revision, options)
  }
}

/** Returns whether a move changes the list entry of a record. */
function isListedAnew(before: TaskRecord, now: TaskRecord): boolean {
  return now.state !== before.state || now.expiresAt !== before.expiresAt
}

/** Returns the new lifetime in milliseconds; `undefined` if the record keeps its expiry. */
function newLifetime(
  before: TaskRecord, { expiresAt, finishedAt }: TaskRecord,
): number | undefined {
  if (expiresAt === before.expiresAt) return undefined
  return expiresAt - (finishedAt ?? Date.now())
}
