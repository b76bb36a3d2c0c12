import type { Created, Existing, Revision, Store } from '../stores/store.js'
import { taskEvents, tellMove } from './channels.js'
import { decode, encode } from './codec.js'
import { change, type TaskChange, type TaskRecord } from './record.js'
import { pauseAfter } from './retry.js'
import { isFinal } from './state.js'

/** A record and the revision that it was read or written at. */
export interface Held {
  readonly record: TaskRecord
  readonly revision: Revision
}

/** Where a task's record lies. Watchers of a task watch this key. */
export const taskKey = (id: string): string => `task:${id}`

/**
 * Reads and writes task records. Every change is a compare-and-set against the newest record, so
 * progress, cancel and the end of a run can't lose each other's write.
 */
export class Ledger {
  private readonly hands = new WeakMap<object, Held>()

  /** `holder` names this process in records whose work dies with it. */
  constructor(readonly store: Store, readonly holder?: string) {}

  /** Gives a record along with its job: one that runs in this process then has no need to read it. */
  hand(job: object, held: Held): void {
    this.hands.set(job, held)
  }

  /**
   * The record that was given along with this very job, once. It may be out of date, which `move` finds
   * out. A job that went through JSON, or to another process, has none.
   */
  handed(job: object): Held | undefined {
    const held = this.hands.get(job)
    if (held) this.hands.delete(job)
    return held
  }

  async load(id: string): Promise<Held | undefined> {
    const entry = await this.store.get(taskKey(id))
    return entry && { record: decode(id, entry.value), revision: entry.revision }
  }

  /** Writes a new record, unless the id is taken. `face` is its face, where the caller has made it. */
  create(record: TaskRecord, face?: string): Promise<Created | Existing> {
    return this.store.create(taskKey(record.id), encode(record, face), { expiresAt: record.expiresAt })
  }

  /**
   * Moves a record on from what the caller holds. `decide` sees the newest record each time another
   * writer came first, and gives the change or `undefined` to leave it. Resolves to the record as it is
   * now, with `moved` telling whether this call changed it; `undefined` when there is no record. A
   * patient move goes on for a while when the store is unavailable.
   */
  async move(held: Held, decide: (record: TaskRecord) => TaskChange | undefined, patient = false): Promise<Moved | undefined> {
    const key = taskKey(held.record.id)
    for (let tried = 1; ; tried++) {
      const wanted = decide(held.record)
      const next = wanted && change(held.record, wanted)
      if (!next) return { record: held.record, revision: held.revision, moved: false }
      try {
        const outcome = await this.store.replace(key, encode(next), held.revision, { expiresAt: next.expiresAt, evictable: isFinal(next.state) })
        if (outcome.replaced) {
          if (taskEvents.hasSubscribers) tellMove(held.record, next)
          return { record: next, revision: outcome.revision, moved: true }
        }
        // A write of ours whose answer was lost looks like another's: `decide` sees it and says so.
        if (!outcome.entry) return undefined
        held = { record: decode(next.id, outcome.entry.value), revision: outcome.entry.revision }
        tried = 0
      } catch (error) {
        if (!patient) throw error
        await pauseAfter(error, tried)
      }
    }
  }
}

/** What a move came to. */
export interface Moved extends Held {
  readonly moved: boolean
}
