import { httpError, type HttpError } from '../../http/errors.js'
import { readFailure } from '../../http/failure.js'
import type { Queue } from '../../queues/queue.js'
import { poolOf } from '../../queues/queue-pools.js'
import type { AnyTaskDefinition } from '../definition/define.js'
import type { TaskIndex } from '../../stores/task-index.js'
import { noCallbacks } from '../record/callbacks.js'
import { snapshotOf, type TaskSnapshot } from '../record/codec.js'
import { releaseInput } from '../record/release-input.js'
import { releaseExternal, releaseUnlessUsed } from '../record/external.js'
import { jobId } from '../record/ids.js'
import { TaskJob } from '../record/job.js'
import type { Ledger, VersionedRecord } from '../record/ledger.js'
import { toListed } from '../record/listed.js'
import { toTaskText, type TaskRecord } from '../record/record.js'
import type { StoreIdentity } from '../record/store-identity.js'
import { publishAccepted, taskChannel } from '../record/task-channel.js'
import { loadWork, type Work } from '../record/work.js'
import { acquireSlot, hasSlots, releaseSlot } from './owner-slots.js'
import { enqueueCommitted, isEnqueuedLater } from './enqueue-committed.js'
import { notEnqueued, shuttingDown } from './not-enqueued.js'
import { remainingDelayMs } from './start-time.js'
import type { NewTask } from './new-task.js'
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
  /** Time for which a final task is kept, unless its definition says otherwise. */
  readonly retentionMs: number
  readonly definitions: ReadonlyMap<string, AnyTaskDefinition>
  readonly hasCallbacks: boolean
  /** `true` if this process runs tasks. */
  readonly isWorker: boolean
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
export async function acceptTask(settings: AcceptSettings, task: NewTask): Promise<Accepted> {
  const { definition, input, options } = task
  checkAcceptable(settings, options)
  const accepted = await new Acceptance(settings, task).accept()
  if (accepted.created && taskChannel.hasSubscribers) {
    publishAccepted(definition.name, accepted.task)
  }
  if (!accepted.created) await releaseUnlessUsed(settings.ledger, definition, input, task.id)
  return accepted
}

/** Throws if this process can accept no task now, or none with such options. */
export function checkAcceptable(settings: AcceptSettings, { callbackUrl }: AcceptOptions): void {
  if (callbackUrl !== undefined && !settings.hasCallbacks) throw noCallbacks()
  if (settings.isClosing()) throw shuttingDown()
}

/** One task on its way into the store and the queue. */
class Acceptance {
  /** The key of the slot that `maxPerOwner` needs. */
  private slot: string | undefined

  constructor(private readonly settings: AcceptSettings, private readonly task: NewTask) {}

  async accept(): Promise<Accepted> {
    for (let tries = 0; tries < MAX_TRIES; tries++) {
      const accepted = (await this.reserveSlot() && await this.create()) || await this.resumeExisting()
      if (accepted) return accepted
    }
    throw httpError('conflict', { message: 'The task of this id was deleted and created again meanwhile; try again.' })
  }

  /** Acquires a slot if `maxPerOwner` needs one. Returns `false` if the task exists already. */
  private async reserveSlot(): Promise<boolean> {
    const { settings: { ledger }, task: { definition: { name, maxPerOwner }, options, id, jobName, ttlMs } } = this
    const { counted } = options
    if (counted === undefined || !hasSlots(maxPerOwner)) return true
    if (options.id !== undefined && await ledger.load(id)) return false
    this.slot = await acquireSlot(ledger.store, { name, maxPerOwner }, counted, {
      id, job: jobName, ttlMs,
    })
    return true
  }

  /** Creates the task. Returns `undefined` if the id is taken. */
  private async create(): Promise<Accepted | undefined> {
    const { settings: { ledger, index }, task } = this
    const record = this.newRecord()
    await task.storeInput(ledger.store, record, this.settings.retentionMs)
    const entry = jobId(record)
    const isFresh = task.options.id === undefined
    const indexed = index?.add(entry, task.delayMs + this.settings.sweepMs)
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
      await releaseInput(this.settings, { ...record, keeps: undefined })
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
      const { input, options: { context } } = this.task
      const job = await this.newJob(created, { input, context })
      const failure = await this.enqueue(job, created.record, this.task.delayMs)
      if (listed) await listed
      return failure
    } catch (error) {
      return error
    }
  }

  private newRecord(): TaskRecord {
    const { ledger: { holder } } = this.settings
    return this.task.toRecord(this.slot, { holder, enqueuedLater: undefined })
  }

  /** Creates the job of a record. */
  private async newJob(
    from: VersionedRecord, { input, context }: Pick<Work, 'input' | 'context'>,
  ): Promise<TaskJob> {
    const { settings: { queue, identity }, task: { id: taskId, definition: { name } } } = this
    const { job } = from.record
    const store = queue.durable ? await identity.read() : undefined
    return new TaskJob({ taskId, job, name, input, context, store }, from)
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
    if (deleted === undefined) throw mayExist(reason)
    const now = deleted ? undefined : await ledger.load(this.task.id)
    if (now) return { task: snapshotOf(now.record), created: true }
    index?.remove(jobId(created.record))
    await this.releaseSlot()
    if (deleted) await releaseInput(this.settings, created.record)
    throw reason
  }

  /** Resumes the task that has the id. Returns `undefined` if it is gone. */
  private async resumeExisting(): Promise<Accepted | undefined> {
    const { settings: { ledger }, task } = this
    const existing = await ledger.load(task.id)
    if (existing?.record.slot !== this.slot) await this.releaseSlot()
    if (!existing) return undefined
    const { record } = existing
    checkSameTask(record, task)
    await this.releaseOwnInput(record)
    if (record.state !== 'queued') return { task: snapshotOf(record), created: false }
    if (isEnqueuedLater(record)) {
      // Its transaction has committed. If this fails, a sweep enqueues it.
      await enqueueCommitted(this.settings, existing).catch(() => undefined)
      return { task: snapshotOf(record), created: false }
    }
    // The input of this request may name another spooled body, so the job gets the stored one.
    const work = await loadWork(ledger.store, record) ?? { input: task.input }
    const delayMs = await remainingDelayMs(this.settings.queue, record)
    const failure = await this.enqueue(await this.newJob(existing, work), record, delayMs)
    // The record stays, because another caller may have been promised this task.
    if (failure) throw mayExist(failure)
    return this.touch(existing)
  }

  /**
   * Releases what this request stored for its own input, such as a second upload of the same body.
   * The task uses what its record names.
   */
  private async releaseOwnInput({ keeps }: TaskRecord): Promise<void> {
    const { definition, input } = this.task
    const own = definition.keeps?.of(input)
    if (own !== undefined && own !== keeps) await releaseExternal(definition, own)
  }

  private async touch(existing: VersionedRecord): Promise<Accepted | undefined> {
    const touched = await touch(this.settings.ledger, existing, this.task)
    return touched && { task: snapshotOf(touched.record), created: false }
  }

  /** Returns `undefined` if the queue has the job, else the reason. */
  private async enqueue(
    job: TaskJob, { pool, priority = 0 }: TaskRecord, delayMs: number,
  ): Promise<HttpError | undefined> {
    const { settings: { queue }, task: { definition: { attempts, backoff } } } = this
    try {
      const options = { delayMs, attempts, backoff, priority }
      const outcome = await poolOf(queue, pool).enqueue(job, options)
      return outcome === 'accepted' ? undefined : notEnqueued(outcome)
    } catch (cause) {
      return httpError('service_unavailable', { headers: { 'retry-after': '1' }, cause })
    }
  }

  private async releaseSlot(): Promise<void> {
    const { slot } = this
    this.slot = undefined
    const { settings: { ledger: { store } }, task: { id, jobName: job } } = this
    if (slot !== undefined) await releaseSlot(store, slot, { id, job }).catch(() => undefined)
  }
}

const ignore = (): undefined => undefined

/** Errors that say nothing about whether the task was accepted. */
const UNCERTAIN = new Set(['service_unavailable', 'store_unavailable'])

/**
 * Returns the error of a task whose record may exist. Others, such as `queue_full`, release the
 * claim of an Idempotency-Key, and a retry would start a second task.
 */
function mayExist(cause: unknown): unknown {
  if (UNCERTAIN.has(readFailure(cause).code)) return cause
  return httpError('service_unavailable', { headers: { 'retry-after': '1' }, cause })
}

/** Throws 409 `conflict` unless the record of an id is that of the task which is submitted. */
export function checkSameTask(
  record: TaskRecord, { definition: { name }, options: { owner } }: NewTask,
): void {
  if (record.owner === owner && record.name === name) return
  throw httpError('conflict', { message: 'This id belongs to another task.' })
}

/** Writes a waiting record, so that the request which created it can no longer delete it. */
export async function touch(
  ledger: Ledger, existing: VersionedRecord, { ttlMs }: NewTask,
): Promise<VersionedRecord | undefined> {
  const until = Date.now() + ttlMs
  return ledger.move(existing, ({ state, expiresAt }) => (
    state === 'queued' ? { expiresAt: Math.max(expiresAt, until) } : undefined
  ))
}
