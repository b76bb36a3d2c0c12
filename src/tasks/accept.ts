import { isPending } from '../http/around.js'
import { httpError, type HttpError } from '../http/errors.js'
import type { MaybePromise } from '../http/exchange.js'
import { newId } from '../http/random-id.js'
import type { Queue } from '../queues/queue.js'
import type { Created, Existing } from '../stores/store.js'
import { LONGEST_MS } from './bounds.js'
import { snapshotOf, type TaskSnapshot } from './codec.js'
import type { AnyTaskDefinition } from './define.js'
import { isTaskId } from './ids.js'
import { releaseKept } from './kept.js'
import type { OwnerId } from './owner-id.js'
import { taskKey, type Held, type Ledger } from './ledger.js'
import { toFaceText, type TaskRecord } from './record.js'
import { freeSlot, takeSlot } from './slots.js'
import { TaskJob } from './task-job.js'

/** How often a task that others take back at the same time is taken in anew. */
const TRIES = 3

/** Options of one task that is submitted. */
export interface SubmitOptions extends OwnedSubmitOptions {
  /**
   * The id of the owner: a text that is not empty. Leave it out for a task of the host's own, which has no owner and
   * is not counted by `maxPerOwner`. `undefined` is a `TypeError`: for a client who may be anonymous, use
   * `tasks.ownedBy(user?.id).submit(…)`.
   */
  readonly owner?: string
}

/** Options of one task whose owner is known. */
export interface OwnedSubmitOptions {
  /** An id of your own (1 to 128 of `A-Z a-z 0-9 . _ -`): a second submit under it starts nothing. */
  readonly id?: string | undefined
  /** Milliseconds before the first run. */
  readonly delayMs?: number | undefined
  /** Travels with the job to `run`; has to survive JSON. */
  readonly context?: unknown
  /** Is told by a signed POST when the task has ended; needs `callbacks` of `createTasks`. */
  readonly callbackUrl?: string | undefined
}

/** The names of the options of `tasks.ownedBy(…).submit`. */
export const OWNED_SUBMIT = {
  id: 0, delayMs: 0, context: 0, callbackUrl: 0,
} satisfies Record<keyof OwnedSubmitOptions, 0>
/** The names of the options of `tasks.submit`. */
export const SUBMIT = { ...OWNED_SUBMIT, owner: 0 } satisfies Record<keyof SubmitOptions, 0>

/** Options of `Tasks.accept`. */
export interface AcceptOptions extends OwnedSubmitOptions {
  readonly owner: OwnerId
  /** The party that `maxPerOwner` counts (see `countedAs`). Absent: the host's own task, which is not counted. */
  readonly counted?: string
  /** The key of an idempotency claim that stands for the task. */
  readonly claim?: string | undefined
}

/** What `accept` did. */
export interface Accepted {
  readonly task: TaskSnapshot
  /** `false` when a task of this id was there already. */
  readonly created: boolean
}

/**
 * Takes in one task: the record first, then the queue. Under an id that is taken nothing is made, but a
 * record that waits is put to the queue again, which takes a job once, so that a crash between the two
 * writes heals when the caller tries again.
 */
export class Intake {
  private readonly id: string
  private readonly ttlMs: number
  private readonly expiresAt: number
  private readonly job: TaskJob
  private slot: string | undefined

  constructor(
    private readonly ledger: Ledger, private readonly queue: Queue, pendingMs: number, private readonly definition: AnyTaskDefinition,
    input: unknown, private readonly options: AcceptOptions,
  ) {
    const { id = newId(), delayMs = 0, context } = options
    this.id = id
    this.ttlMs = delayMs + pendingMs
    this.expiresAt = Date.now() + this.ttlMs
    this.job = new TaskJob(id, definition.name, input, context)
  }

  take(): MaybePromise<Accepted> {
    const { definition: { maxPerOwner }, options: { counted, delayMs = 0 } } = this
    if (!isTaskId(this.id)) throw new TypeError('id must be 1 to 128 of A-Z a-z 0-9 . _ - and not begin with a dot')
    if (!(delayMs >= 0 && delayMs <= LONGEST_MS)) throw new TypeError('delayMs must be from 0 to 100 years')
    if (counted !== undefined && maxPerOwner !== undefined) return this.takeWithin(counted, maxPerOwner)
    const taken = this.make()
    return isPending(taken) ? taken.then((late) => late ?? this.goOn()) : taken ?? this.goOn()
  }

  private async takeWithin(counted: string, maxPerOwner: number): Promise<Accepted> {
    for (let tried = 0; tried < TRIES; tried++) {
      const taken = (await this.reserve(counted, maxPerOwner) && await this.make()) || await this.again()
      if (taken) return taken
    }
    throw cameAndWent()
  }

  /** There is a task of this id, or was a moment ago. */
  private async goOn(): Promise<Accepted> {
    for (let tried = 1; tried <= TRIES; tried++) {
      const taken = await this.again() ?? (tried < TRIES ? await this.make() : undefined)
      if (taken) return taken
    }
    throw cameAndWent()
  }

  /** `undefined` when the id is taken. Without a promise where neither store nor queue needs one. */
  private make(): MaybePromise<Accepted | undefined> {
    const record = this.record()
    const face = toFaceText(record)
    const key = taskKey(this.id)
    const outcome = this.ledger.create(record, face, key)
    return isPending(outcome) ? outcome.then((late) => this.made(late, record, key, face)) : this.made(outcome, record, key, face)
  }

  private made(outcome: Created | Existing, record: TaskRecord, key: string, face: string): MaybePromise<Accepted | undefined> {
    if (!outcome.created) return undefined
    const held = { record, revision: outcome.revision, key }
    this.job.carry(held)
    const refused = this.enqueue()
    if (isPending(refused)) return refused.then((late) => this.enqueued(late, held, face))
    return this.enqueued(refused, held, face)
  }

  private enqueued(refused: HttpError | undefined, held: Held, face: string): MaybePromise<Accepted> {
    return refused ? this.takeBack(held, refused) : { task: snapshotOf(held.record, face), created: true }
  }

  private record(): TaskRecord {
    const { callbackUrl } = this.options
    const { keeps } = this.definition
    return {
      id: this.id, name: this.definition.name, owner: this.options.owner, state: 'queued', attempt: 0, version: 1,
      createdAt: Date.now(), startedAt: undefined, finishedAt: undefined, expiresAt: this.expiresAt,
      progress: undefined, result: undefined, error: undefined, errorStatus: undefined, claim: this.options.claim, slot: this.slot,
      ...(this.ledger.holder === undefined ? {} : { holder: this.ledger.holder }),
      // The input was judged, so it is what this definition takes.
      ...(keeps === undefined ? {} : { keeps: keeps.of(this.job.input as never) }),
      callback: callbackUrl === undefined ? undefined : { url: callbackUrl, state: 'waiting', attempts: 0 },
    }
  }

  /** Takes a slot. `false` when the task is there already: it needs no room. */
  private async reserve(counted: string, maxPerOwner: number): Promise<boolean> {
    const { ledger, definition: { name }, id, ttlMs } = this
    if (this.options.id !== undefined && await ledger.load(id)) return false
    this.slot = await takeSlot(ledger.store, { name, maxPerOwner }, counted, id, ttlMs)
    return true
  }

  /** Taken back only if nobody has touched it: whoever did runs it, or knows it to be in the queue. */
  private async takeBack(held: Held, refused: HttpError): Promise<Accepted> {
    const gone = await this.remove(held)
    const now = gone === false ? await this.ledger.load(this.id) : undefined
    if (now) return { task: snapshotOf(now.record), created: true }
    await this.freeSlot()
    if (gone && held.record.keeps !== undefined) await releaseKept(this.definition, held.record.keeps)
    throw refused
  }

  /** `undefined`: nobody knows. */
  private async remove(held: Held): Promise<boolean | undefined> {
    try {
      return await this.ledger.store.delete(taskKey(this.id), held.revision)
    } catch {
      return undefined
    }
  }

  /** `undefined` when the task that had the id has gone. */
  private async again(): Promise<Accepted | undefined> {
    const { ledger, options, definition } = this
    const held = await ledger.load(this.id)
    if (held?.record.slot !== this.slot) await this.freeSlot()
    if (!held) return undefined
    if (held.record.owner !== options.owner || held.record.name !== definition.name) {
      throw httpError('conflict', { message: 'This id belongs to another task.' })
    }
    if (held.record.state !== 'queued') return { task: snapshotOf(held.record), created: false }
    const refused = await this.enqueue()
    // Not taken back: another caller may have been promised this task.
    if (refused) throw refused
    return this.touch(held)
  }

  /** Writes the record anew, so that whoever made it can no longer take it back. */
  private async touch(held: Held): Promise<Accepted | undefined> {
    const touched = await this.ledger.move(held, ({ state, expiresAt }) => (
      state === 'queued' ? { expiresAt: Math.max(expiresAt, this.expiresAt) } : undefined
    ))
    return touched && { task: snapshotOf(touched.record), created: false }
  }

  /** `undefined` when the queue has the job; else why not. */
  private enqueue(): MaybePromise<HttpError | undefined> {
    const { definition: { attempts, backoff }, options: { delayMs = 0 } } = this
    const outcome = this.queue.enqueue(this.job, { delayMs, attempts, backoff })
    return isPending(outcome) ? outcome.then(refusal, failureOfQueue) : refusal(outcome)
  }

  private async freeSlot(): Promise<void> {
    const { slot } = this
    this.slot = undefined
    if (slot !== undefined) await freeSlot(this.ledger.store, slot, this.id).catch(() => undefined)
  }
}

function cameAndWent(): HttpError {
  return httpError('conflict', { message: 'Tasks of this id come and go; try again.' })
}

function refusal(outcome: 'accepted' | 'full'): HttpError | undefined {
  return outcome === 'accepted' ? undefined : httpError('queue_full', { headers: { 'retry-after': '1' } })
}

function failureOfQueue(cause: unknown): HttpError {
  return httpError('service_unavailable', { headers: { 'retry-after': '1' }, cause })
}
