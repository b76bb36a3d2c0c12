import { after, isPending, type MaybePromise } from '../../runtime/maybe-promise.js'
import type {
  Conflict, Created, Entry, Existing, Replaced, Revision, Store,
} from '../../stores/store.js'
import { taskEvents, tellMove } from './channels.js'
import { decode, encode, toSnapshot, type TaskSnapshot } from './codec.js'
import { change, type TaskChange, type TaskRecord } from './record.js'
import { Patience } from './retry.js'
import { isFinal } from './state.js'

/** A record and the revision that it was read or written at. */
export interface Held {
  readonly record: TaskRecord
  readonly revision: Revision
  /** Where it lies, by a text whose hash V8 has made already; absent: not at hand. */
  readonly key?: string
}

/** Where a task's record lies. Watchers of a task watch this key. */
export const taskKey = (id: string): string => `task:${id}`

/**
 * Reads and writes task records. Every change is a compare-and-set against the newest record, so
 * progress, cancel and the end of a run can't lose each other's write.
 */
export class Ledger {
  /** `holder` names this process in records whose work dies with it. */
  constructor(readonly store: Store, readonly holder?: string) {}

  /** Bounds how long patient moves, and those who read for a run, wait for the store. */
  readonly patience = new Patience()

  load(id: string): MaybePromise<Held | undefined> {
    const entry = this.store.get(taskKey(id))
    return isPending(entry) ? entry.then((late) => toHeld(id, late)) : toHeld(id, entry)
  }

  /** Reads what a status answer needs. */
  glance(id: string): MaybePromise<TaskSnapshot | undefined> {
    return after(this.store.get(taskKey(id)), (entry) => entry && toSnapshot(id, entry.value))
  }

  /**
   * Writes a new record, unless the id is taken. `face` is its face, where the caller has made it.
   */
  create(record: TaskRecord, face?: string, key = taskKey(record.id)): MaybePromise<Created | Existing> {
    return this.store.create(key, encode(record, face), { ttlMs: record.expiresAt - record.createdAt })
  }

  /**
   * Moves a record on from what the caller holds. `decide` sees the newest record each time another
   * writer came first, and gives the change or `undefined` to leave it. Gives the record as it is
   * now, with `moved` telling whether this call changed it; `undefined` when there is no record. A
   * patient move goes on for a while when the store is unavailable.
   */
  move(held: Held, decide: Decide, patient = false): MaybePromise<Moved | undefined> {
    const next = this.next(held, decide)
    if (!next) return { record: held.record, revision: held.revision, moved: false }
    const outcome = this.write(held, next)
    // The usual case goes without a turn.
    if (!isPending(outcome) && outcome.replaced) return moved(held, next, outcome.revision)
    return this.moveOn(held, next, outcome, decide, patient)
  }

  private async moveOn(
    held: Held, next: TaskRecord | undefined, outcome: MaybePromise<Replaced | Conflict> | undefined, decide: Decide, patient: boolean,
  ): Promise<Moved | undefined> {
    for (let tried = 1; ; tried++) {
      if (!next) return { record: held.record, revision: held.revision, moved: false }
      try {
        const now = await (outcome ?? this.write(held, next))
        if (now.replaced) return moved(held, next, now.revision)
        // A write of ours whose answer was lost looks like another's: `decide` sees it and says so.
        if (!now.entry) return undefined
        held = { record: decode(next.id, now.entry.value), revision: now.entry.revision }
        next = this.next(held, decide)
        tried = 0
      } catch (error) {
        if (!patient) throw error
        await this.patience.pauseAfter(error, tried, this.store.shared)
      }
      outcome = undefined
    }
  }

  private next(held: Held, decide: Decide): TaskRecord | undefined {
    const wanted = decide(held.record)
    return wanted && change(held.record, wanted)
  }

  private write(held: Held, next: TaskRecord): MaybePromise<Replaced | Conflict> {
    const options = { ttlMs: newLifetime(held.record, next), evictable: isFinal(next.state) }
    return this.store.replace(held.key ?? taskKey(next.id), encode(next), held.revision, options)
  }
}

/** The lifetime in milliseconds that a change gives a record; `undefined`: it keeps its expiry. */
function newLifetime(before: TaskRecord, { expiresAt, finishedAt }: TaskRecord): number | undefined {
  if (expiresAt === before.expiresAt) return undefined
  return expiresAt - (finishedAt ?? Date.now())
}

type Decide = (record: TaskRecord) => TaskChange | undefined

function toHeld(id: string, entry: Entry | undefined): Held | undefined {
  return entry && { record: decode(id, entry.value), revision: entry.revision }
}

function moved(from: Held, record: TaskRecord, revision: Revision): Moved {
  if (taskEvents.hasSubscribers) tellMove(from.record, record)
  return { record, revision, moved: true }
}

/** What a move came to. */
export interface Moved extends Held {
  readonly moved: boolean
}
