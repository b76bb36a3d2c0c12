import { httpError, type HttpError } from '../../http/errors.js'
import { newId } from '../../runtime/random-id.js'
import type { Queue } from '../../queues/queue.js'
import type { TaskIndex } from '../../stores/task-index.js'
import { LONGEST_MS } from '../definition/bounds.js'
import { snapshotOf, type TaskSnapshot } from '../record/codec.js'
import type { AnyTaskDefinition } from '../definition/define.js'
import { isTaskId } from '../record/ids.js'
import { jobId, newJobName } from '../record/job-id.js'
import { releaseKept, settleKept } from '../record/kept.js'
import { taskKey, type Held, type Ledger } from '../record/ledger.js'
import type { OwnerId } from '../record/owner-id.js'
import { toFaceText, type TaskRecord } from '../record/record.js'
import { freeSlot, takeSlot } from './slots.js'
import type { StoreIdentity } from '../record/store-identity.js'
import { TaskJob } from '../record/task-job.js'
import { readWork, toWork } from '../record/work.js'

/** How often a task that others take back at the same time is taken in anew. */
const TRIES = 3

/** Options of one task that is submitted. */
export interface SubmitOptions extends OwnedSubmitOptions {
  /**
   * The id of the owner: a text that is not empty. Leave it out for a task of the host's own, which
   * has no owner and is not counted by `maxPerOwner`. `undefined` is a `TypeError`: for a client
   * who may be anonymous, use `tasks.ownedBy(user?.id).submit(…)`.
   */
  readonly owner?: string
}

/** Options of one task whose owner is known. */
export interface OwnedSubmitOptions {
  /**
   * An id of your own (1 to 128 of `A-Z a-z 0-9 . _ -`): a second submit under it starts nothing.
   */
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
  /**
   * The party that `maxPerOwner` counts (see `countedAs`). Absent: the host's own task, which is
   * not counted.
   */
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

/** What taking in a task needs. Times are in milliseconds. */
export interface IntakeSettings {
  readonly ledger: Ledger
  readonly queue: Queue
  readonly index: TaskIndex | undefined
  readonly identity: StoreIdentity
  readonly pendingMs: number
  /** How long after it could run a task is first looked for. */
  readonly sweepMs: number
}

/**
 * Takes in one task: first the index, then the record, then the queue, then the answer. Under an id
 * that is taken nothing is made, but a record that waits is enqueued again, and the queue takes a
 * job once. So a crash between two of the writes heals when the caller tries again, or when the
 * sweep finds the entry.
 */
export class Intake {
  private readonly id: string
  private readonly jobName = newJobName()
  private readonly delayMs: number
  private readonly ttlMs: number
  private slot: string | undefined

  constructor(
    private readonly settings: IntakeSettings, private readonly definition: AnyTaskDefinition, private readonly input: unknown,
    private readonly options: AcceptOptions,
  ) {
    const { id = newId(), delayMs = 0 } = options
    this.id = id
    this.delayMs = delayMs
    this.ttlMs = delayMs + settings.pendingMs
  }

  take(): Promise<Accepted> {
    return settleKept(this.settings.ledger, this.definition, this.input, this.taken())
  }

  private async taken(): Promise<Accepted> {
    if (!isTaskId(this.id)) throw new TypeError('id must be 1 to 128 of A-Z a-z 0-9 . _ - and not begin with a dot')
    if (!(this.delayMs >= 0 && this.delayMs <= LONGEST_MS)) throw new TypeError('delayMs must be from 0 to 100 years')
    for (let tried = 0; tried < TRIES; tried++) {
      const taken = (await this.reserve() && await this.make()) || await this.again()
      if (taken) return taken
    }
    throw httpError('conflict', { message: 'Tasks of this id come and go; try again.' })
  }

  /**
   * Takes a slot where `maxPerOwner` wants one. `false` when the task is there already: it needs no
   * room.
   */
  private async reserve(): Promise<boolean> {
    const { settings: { ledger }, definition: { name, maxPerOwner }, options: { counted }, id, ttlMs } = this
    if (counted === undefined || maxPerOwner === undefined) return true
    if (this.options.id !== undefined && await ledger.load(id)) return false
    this.slot = await takeSlot(ledger.store, { name, maxPerOwner }, counted, id, ttlMs)
    return true
  }

  /** Makes the task; `undefined` when the id is taken. */
  private async make(): Promise<Accepted | undefined> {
    const { settings: { ledger, index } } = this
    const record = this.record()
    const entry = jobId(record)
    const listed = index?.add(entry, this.delayMs + this.settings.sweepMs)
    // Under an id that somebody knows already, no record may be without its entry. A fresh id
    // nobody knows before the answer.
    if (this.options.id !== undefined) await listed
    // Heard below; without this an outcome that comes early would count as unhandled.
    else listed?.catch(() => undefined)
    const face = toFaceText(record)
    const key = taskKey(this.id)
    const outcome = await ledger.create(record, face, key)
    if (!outcome.created) {
      index?.remove(entry)
      return undefined
    }
    const held = { record, revision: outcome.revision, key }
    const refused = await this.listAndEnqueue(listed, held)
    return refused ? this.takeBack(held, refused) : { task: snapshotOf(record, face), created: true }
  }

  private async listAndEnqueue(listed: void | Promise<void>, held: Held): Promise<unknown> {
    try {
      await listed
      return await this.enqueue(await this.job(held))
    } catch (error) {
      return error
    }
  }

  private record(): TaskRecord {
    const { settings: { ledger: { holder }, queue }, definition: { name, keeps }, options: { owner, claim, context, callbackUrl }, delayMs } = this
    const createdAt = Date.now()
    return {
      id: this.id, name, owner, state: 'queued', job: this.jobName, attempt: 0, version: 1,
      createdAt, startedAt: undefined, finishedAt: undefined, expiresAt: createdAt + this.ttlMs,
      startAt: delayMs > 0 ? createdAt + Math.ceil(delayMs) : undefined,
      progress: undefined, result: undefined, error: undefined, errorStatus: undefined, claim, slot: this.slot, holder,
      // The input was judged, so it is what this definition takes.
      keeps: keeps?.of(this.input as never),
      callback: callbackUrl === undefined ? undefined : { url: callbackUrl, state: 'waiting', attempts: 0 },
      // What is lost with this process need not be found again.
      work: queue.durable ? toWork({ input: this.input, context, attempts: this.definition.attempts, backoff: this.definition.backoff }) : undefined,
    }
  }

  /**
   * The job of a record, made of the work in it: that of this request may differ in where a spooled
   * body is.
   */
  private async job(held: Held): Promise<TaskJob> {
    const { settings: { queue, identity }, definition: { name }, options } = this
    const { work } = held.record
    const { input, context } = work === undefined ? { input: this.input, context: options.context } : readWork(work)
    const store = queue.durable ? await identity.read() : undefined
    const job = new TaskJob({ taskId: this.id, job: held.record.job, name, input, context, store })
    job.carry(held)
    return job
  }

  /**
   * Taken back only if nobody has touched it: whoever did runs it, or knows it to be in the queue.
   * A job that lands later although its enqueue failed finds no record of its own and does nothing;
   * so what the task keeps may go once the record certainly has.
   */
  private async takeBack(held: Held, refused: unknown): Promise<Accepted> {
    const { settings: { ledger, index } } = this
    const gone = await this.remove(held)
    // Nobody knows: the sweep, or a retry under the id, finds out.
    if (gone === undefined) throw refused
    const now = gone ? undefined : await ledger.load(this.id)
    if (now) return { task: snapshotOf(now.record), created: true }
    index?.remove(jobId(held.record))
    await this.freeSlot()
    if (gone && held.record.keeps !== undefined) await releaseKept(this.definition, held.record.keeps)
    throw refused
  }

  /** `undefined`: nobody knows. */
  private async remove(held: Held): Promise<boolean | undefined> {
    try {
      return await this.settings.ledger.store.delete(taskKey(this.id), held.revision)
    } catch {
      return undefined
    }
  }

  /** The task that has the id; `undefined` when it has gone. */
  private async again(): Promise<Accepted | undefined> {
    const { settings: { ledger }, options, definition } = this
    const held = await ledger.load(this.id)
    if (held?.record.slot !== this.slot) await this.freeSlot()
    if (!held) return undefined
    if (held.record.owner !== options.owner || held.record.name !== definition.name) {
      throw httpError('conflict', { message: 'This id belongs to another task.' })
    }
    await this.discardOwn(held.record)
    if (held.record.state !== 'queued') return { task: snapshotOf(held.record), created: false }
    const refused = await this.enqueue(await this.job(held))
    // Not taken back: another caller may have been promised this task.
    if (refused) throw refused
    return this.touch(held)
  }

  /**
   * Releases what this request kept for itself, such as a second upload of the same body: the task
   * uses that of its record.
   */
  private async discardOwn({ keeps, work, state }: TaskRecord): Promise<void> {
    const { definition, input } = this
    const own = definition.keeps?.of(input as never)
    if (own === undefined || own === keeps || (state === 'queued' && work === undefined)) return
    await releaseKept(definition, own)
  }

  /** Writes the record anew, so that whoever made it can no longer take it back. */
  private async touch(held: Held): Promise<Accepted | undefined> {
    const until = Date.now() + this.ttlMs
    const touched = await this.settings.ledger.move(held, ({ state, expiresAt }) => (
      state === 'queued' ? { expiresAt: Math.max(expiresAt, until) } : undefined
    ))
    return touched && { task: snapshotOf(touched.record), created: false }
  }

  /** `undefined` when the queue has the job; else why not. */
  private async enqueue(job: TaskJob): Promise<HttpError | undefined> {
    const { settings: { queue }, definition: { attempts, backoff }, delayMs } = this
    try {
      const outcome = await queue.enqueue(job, { delayMs, attempts, backoff })
      return outcome === 'accepted' ? undefined : httpError('queue_full', { headers: { 'retry-after': '1' } })
    } catch (cause) {
      return httpError('service_unavailable', { headers: { 'retry-after': '1' }, cause })
    }
  }

  private async freeSlot(): Promise<void> {
    const { slot } = this
    this.slot = undefined
    if (slot !== undefined) await freeSlot(this.settings.ledger.store, slot, this.id).catch(() => undefined)
  }
}
