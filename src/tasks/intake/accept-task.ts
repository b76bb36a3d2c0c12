import { httpError, type HttpError } from '../../http/errors.js'
import type { Queue } from '../../queues/queue.js'
import { newId } from '../../runtime/random-id.js'
import type { TaskIndex } from '../../stores/task-index.js'
import { LONGEST_MS } from '../definition/bounds.js'
import type { AnyTaskDefinition } from '../definition/define.js'
import { noCallbacks } from '../record/callbacks.js'
import { snapshotOf, type TaskSnapshot } from '../record/codec.js'
import { releaseExternal, releaseUnlessUsed } from '../record/external.js'
import { isTaskId, jobId, newJobName } from '../record/ids.js'
import { decodeWork, encodeWork, TaskJob } from '../record/job.js'
import type { Ledger, VersionedRecord } from '../record/ledger.js'
import { toListed } from '../record/listed.js'
import { toTaskText, type TaskRecord } from '../record/record.js'
import type { StoreIdentity } from '../record/store-identity.js'
import { publishAccepted, taskChannel } from '../record/task-channel.js'
import { acquireSlot, releaseSlot } from './owner-slots.js'
import type { AcceptOptions } from './submit-options.js'

/** Number of attempts at a task whose id others delete and use at the same time. */
const MAX_TRIES = 3

/** Outcome of `acceptTask`. */
export interface Accepted {
  readonly task: TaskSnapshot
  /** `false`: there was a task of this id already. */
  readonly created: boolean
}

/** Settings of `acceptTask`. Times are in milliseconds. */
export interface AcceptSettings {
  readonly ledger: Ledger
  readonly queue: Queue
  readonly index: TaskIndex | undefined
  readonly identity: StoreIdentity
  readonly pendingMs: number
  readonly hasCallbacks: boolean
  /** `true` if this process shuts down. */
  readonly isClosing: () => boolean
  /** Time after which a task that can run is first looked for. */
  readonly sweepMs: number
}

/**
 * Accepts one task whose input was validated: writes the index, then the record, then the queue. If
 * the id is taken, creates nothing, but enqueues a waiting record again; the queue takes each job
 * once. So a crash between two of the writes is mended by a retry of the caller, or by the sweep
 * when it finds the entry of the index.
 *
 * @throws {HttpError} 409 `conflict`, 429 `too_many_tasks`, 503 `queue_full`, `service_unavailable`
 * or `shutting_down`
 */
export async function acceptTask(
  settings: AcceptSettings, definition: AnyTaskDefinition, input: unknown, options: AcceptOptions,
): Promise<Accepted> {
  if (options.callbackUrl !== undefined && !settings.hasCallbacks) throw noCallbacks()
  if (settings.isClosing()) throw shuttingDown()
  const accepted = await new Acceptance(settings, definition, input, options).accept()
  const { created, task } = accepted
  if (created && taskChannel.hasSubscribers) publishAccepted(definition.name, task)
  if (!created) await releaseUnlessUsed(settings.ledger, definition, input, task.id)
  return accepted
}

/** One task on its way into the store and the queue. */
class Acceptance {
  private readonly id: string
  private readonly jobName = newJobName()
  private readonly delayMs: number
  private readonly ttlMs: number
  /** The key of the slot that `maxPerOwner` needs. */
  private slot: string | undefined

  constructor(
    private readonly settings: AcceptSettings, private readonly definition: AnyTaskDefinition,
    private readonly input: unknown, private readonly options: AcceptOptions,
  ) {
    const { id = newId(), delayMs = 0 } = options
    if (!isTaskId(id)) throw new TypeError('id must be 1 to 128 of A-Z a-z 0-9 . _ - and not begin with a dot')
    if (!(delayMs >= 0 && delayMs <= LONGEST_MS)) throw new TypeError('delayMs must be from 0 to 100 years')
    this.id = id
    this.delayMs = delayMs
    this.ttlMs = delayMs + settings.pendingMs
  }

  async accept(): Promise<Accepted> {
    for (let tries = 0; tries < MAX_TRIES; tries++) {
      const accepted = (await this.reserveSlot() && await this.create()) || await this.resumeExisting()
      if (accepted) return accepted
    }
    throw httpError('conflict', { message: 'The task of this id was deleted and created again meanwhile; try again.' })
  }

  /** Acquires a slot if `maxPerOwner` needs one. Returns `false` if the task exists already. */
  private async reserveSlot(): Promise<boolean> {
    const { settings: { ledger }, definition: { name, maxPerOwner }, options: { counted }, id, ttlMs } = this
    if (counted === undefined || maxPerOwner === undefined) return true
    if (this.options.id !== undefined && await ledger.load(id)) return false
    this.slot = await acquireSlot(ledger.store, { name, maxPerOwner }, counted, id, ttlMs)
    return true
  }

  /** Creates the task. Returns `undefined` if the id is taken. */
  private async create(): Promise<Accepted | undefined> {
    const { settings: { ledger, index }, options } = this
    const record = this.newRecord()
    const entry = jobId(record)
    const isFresh = options.id === undefined
    const indexed = index?.add(entry, this.delayMs + this.settings.sweepMs)
    // An id that somebody knows already must have its entry before its record. Nobody knows a fresh
    // id before the answer, so its entry may be written together with the record.
    if (!isFresh) await indexed
    else indexed?.catch(ignore)
    // An id that is not fresh may be listed as another task until its record is created.
    const listed = isFresh ? this.list(record) : undefined
    const text = toTaskText(record)
    const outcome = await ledger.create(record, { text, isFresh })
    if (!outcome.created) {
      index?.remove(entry)
      return undefined
    }
    const created = { record, revision: outcome.revision }
    const failure = await this.finishCreate(indexed, isFresh ? listed : this.list(record), created)
    return failure === undefined ? { task: snapshotOf(record, text), created: true } : this.undoCreate(created, failure)
  }

  /** Puts a new task into the lists, so that a client whose request was answered finds it there. */
  private list(record: TaskRecord): void | Promise<void> {
    const listed = this.settings.index?.put(toListed(record, record.createdAt))
    // Awaited by `finishCreate`. Without this, an early rejection would count as unhandled.
    listed?.catch(ignore)
    return listed
  }

  /**
   * Enqueues the job of a new record. Returns the reason if that failed, or if the index could not
   * be written.
   */
  private async finishCreate(
    indexed: void | Promise<void>, listed: void | Promise<void>, created: VersionedRecord,
  ): Promise<unknown> {
    try {
      await indexed
      const failure = await this.enqueue(await this.newJob(created))
      if (listed) await listed
      return failure
    } catch (error) {
      return error
    }
  }

  private newRecord(): TaskRecord {
    const { definition: { name, keeps, attempts, backoff }, delayMs, input } = this
    const { settings: { ledger: { holder }, queue }, options: { owner, claim, context, callbackUrl } } = this
    const createdAt = Date.now()
    return {
      id: this.id, name, owner, state: 'queued', job: this.jobName, attempt: 0, version: 1,
      createdAt, startedAt: undefined, finishedAt: undefined, expiresAt: createdAt + this.ttlMs,
      startAt: delayMs > 0 ? createdAt + Math.ceil(delayMs) : undefined,
      progress: undefined, result: undefined, error: undefined, errorStatus: undefined,
      claim, slot: this.slot, holder,
      keeps: keeps?.of(input),
      callback: callbackUrl === undefined ? undefined : { url: callbackUrl, state: 'waiting', attempts: 0 },
      // A queue in memory loses its jobs together with this process.
      work: queue.durable ? encodeWork({ input, context, attempts, backoff }) : undefined,
    }
  }

  /**
   * Creates the job of a record from the work in the record. The input of this request may name
   * another spooled body.
   */
  private async newJob(from: VersionedRecord): Promise<TaskJob> {
    const { settings: { queue, identity }, definition: { name }, options } = this
    const { work, job } = from.record
    const { input, context } = work === undefined ? { input: this.input, context: options.context } : decodeWork(work)
    const store = queue.durable ? await identity.read() : undefined
    return new TaskJob({ taskId: this.id, job, name, input, context, store }, from)
  }

  /**
   * Deletes a record whose job could not be enqueued, unless another process has changed it: that
   * one runs the task, or knows that its job is in the queue. A job that is enqueued later,
   * although its enqueue failed, finds no record and does nothing.
   */
  private async undoCreate(created: VersionedRecord, reason: unknown): Promise<Accepted> {
    const { settings: { ledger, index } } = this
    const deleted = await ledger.delete(created).catch(() => undefined)
    // Unknown outcome: the sweep, or a retry with this id, finds out.
    if (deleted === undefined) throw reason
    const now = deleted ? undefined : await ledger.load(this.id)
    if (now) return { task: snapshotOf(now.record), created: true }
    index?.remove(jobId(created.record))
    await this.releaseSlot()
    if (deleted && created.record.keeps !== undefined) await releaseExternal(this.definition, created.record.keeps)
    throw reason
  }

  /** Resumes the task that has the id. Returns `undefined` if it is gone. */
  private async resumeExisting(): Promise<Accepted | undefined> {
    const { settings: { ledger }, options, definition } = this
    const existing = await ledger.load(this.id)
    if (existing?.record.slot !== this.slot) await this.releaseSlot()
    if (!existing) return undefined
    const { record } = existing
    if (record.owner !== options.owner || record.name !== definition.name) {
      throw httpError('conflict', { message: 'This id belongs to another task.' })
    }
    await this.releaseOwnInput(record)
    if (record.state !== 'queued') return { task: snapshotOf(record), created: false }
    const failure = await this.enqueue(await this.newJob(existing))
    // The record stays, because another caller may have been promised this task.
    if (failure) throw failure
    return this.touch(existing)
  }

  /**
   * Releases what this request stored for its own input, such as a second upload of the same body.
   * The task uses what its record names.
   */
  private async releaseOwnInput({ keeps, work, state }: TaskRecord): Promise<void> {
    const { definition, input } = this
    const own = definition.keeps?.of(input)
    if (own === undefined || own === keeps || (state === 'queued' && work === undefined)) return
    await releaseExternal(definition, own)
  }

  /** Writes the record, so that the request which created it can no longer delete it. */
  private async touch(existing: VersionedRecord): Promise<Accepted | undefined> {
    const until = Date.now() + this.ttlMs
    const touched = await this.settings.ledger.move(existing, ({ state, expiresAt }) => (
      state === 'queued' ? { expiresAt: Math.max(expiresAt, until) } : undefined
    ))
    return touched && { task: snapshotOf(touched.record), created: false }
  }

  /** Returns `undefined` if the queue has the job, else the reason. */
  private async enqueue(job: TaskJob): Promise<HttpError | undefined> {
    const { settings: { queue }, definition: { attempts, backoff }, delayMs } = this
    try {
      const outcome = await queue.enqueue(job, { delayMs, attempts, backoff })
      return outcome === 'accepted' ? undefined : httpError('queue_full', { headers: { 'retry-after': '1' } })
    } catch (cause) {
      return httpError('service_unavailable', { headers: { 'retry-after': '1' }, cause })
    }
  }

  private async releaseSlot(): Promise<void> {
    const { slot } = this
    this.slot = undefined
    if (slot !== undefined) await releaseSlot(this.settings.ledger.store, slot, this.id).catch(() => undefined)
  }
}

const ignore = (): undefined => undefined

/** Returns the error for requests that are refused because this process shuts down. */
export function shuttingDown(): HttpError {
  return httpError('shutting_down', { headers: { 'retry-after': '5' } })
}
