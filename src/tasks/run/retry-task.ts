import { httpError } from '../../http/errors.js'
import type { EnqueueOutcome } from '../../queues/queue.js'
import { DEFAULT_POOL, poolOf } from '../../queues/queue-pools.js'
import type { Blobs } from '../../stores/blobs.js'
import { CLAIM_MARGIN_MS, settleTaskClaim } from '../../idempotency/once-task.js'
import type { AcceptSettings } from '../intake/accept-task.js'
import { notEnqueued, shuttingDown } from '../intake/not-enqueued.js'
import { acquireSlot, hasSlots, passSlot, releaseSlot } from '../intake/owner-slots.js'
import type { UnfinishedTasks } from '../intake/unfinished-tasks.js'
import { snapshotOf, type TaskSnapshot } from '../record/codec.js'
import { isTaskId, jobId, newJobName, taskKey } from '../record/ids.js'
import { TaskJob } from '../record/job.js'
import { renewExternal } from '../record/external.js'
import { fileKey } from '../record/files.js'
import type { VersionedRecord } from '../record/ledger.js'
import type { IsVisible } from '../record/owner.js'
import type { TaskRecord } from '../record/record.js'
import { isFinal } from '../record/state.js'
import { loadWork, renewLargeWork, type Work } from '../record/work.js'
import { renewCheckpoint } from './checkpoint-entry.js'
import { renewFiles } from './files/stored-files.js'

/** Parts of the service that `retryTask` uses. */
export interface RetrySettings extends AcceptSettings {
  readonly unfinished: UnfinishedTasks
  readonly blobs: Blobs | undefined
}

/** The party that asks for a retry. */
export interface RetryRequest {
  readonly isVisible: IsVisible
  /** Returns the party that `maxPerOwner` counts; `undefined` if the task is not counted. */
  readonly counted: (record: TaskRecord) => string | undefined
  /** `true` for a request over HTTP, for which `maxPerOwner` has a default. */
  readonly isRequest?: boolean
}

/**
 * Retries a failed or cancelled task: it waits for a new job under the same id. Writes the index,
 * then the record, then the queue, as `acceptTask` does. If the process dies in between, a sweep
 * enqueues the task. `undefined` if there is no such task.
 *
 * @throws {HttpError} 409 `task_not_final`, `task_already_completed` or `conflict`, 410 `gone`, 429
 * `too_many_tasks`, 503 `queue_full`, `service_unavailable` or `shutting_down`
 */
export async function retryTask(
  settings: RetrySettings, id: string, request: RetryRequest,
): Promise<TaskSnapshot | undefined> {
  if (settings.isClosing()) throw shuttingDown()
  const found = isTaskId(id) ? await settings.ledger.load(id) : undefined
  if (!found || !request.isVisible(found.record)) return undefined
  requireRetryable(found.record)
  const work = await loadWork(settings.ledger.store, found.record)
  if (work === undefined || !await renewInput(settings, found.record)) {
    return refuseWithoutInput(settings, id, request)
  }
  const retry = new Retry(settings, found, work, request)
  const counted = request.isRequest ? request.counted(found.record) : undefined
  if (counted === undefined || hasLimit(settings, found.record)) return retry.perform()
  const count = await settings.unfinished.count(counted, { id, mayExist: false }, async () => {
    const task = await retry.perform()
    return { created: task !== undefined, task }
  })
  return count.task
}

/** Returns whether the definition of a task has `maxPerOwner`. */
function hasLimit({ definitions }: RetrySettings, { name }: TaskRecord): boolean {
  return definitions.get(name)?.maxPerOwner !== undefined
}

/**
 * Refuses the retry of a task whose input is gone. Another retry, which has completed the task
 * meanwhile, or a deletion may have released the input: then the task is refused as it is now.
 */
async function refuseWithoutInput(
  { ledger }: RetrySettings, id: string, { isVisible }: RetryRequest,
): Promise<undefined> {
  const now = await ledger.load(id)
  if (!now || !isVisible(now.record)) return undefined
  requireRetryable(now.record)
  throw httpError('gone', { message: 'The input of this task is no longer stored.' })
}

function requireRetryable({ state }: TaskRecord): void {
  if (!isFinal(state)) throw httpError('task_not_final')
  if (state === 'completed') throw httpError('task_already_completed')
}

/** Renews what the input names, such as a spooled upload. Returns `false` if that is gone. */
async function renewInput(settings: RetrySettings, { name, keeps }: TaskRecord): Promise<boolean> {
  const ttlMs = recordMsOf(settings, name) + CLAIM_MARGIN_MS
  return renewExternal(settings.definitions.get(name), keeps, ttlMs)
}

/** Returns the longest time that the record of a retried task is kept, in milliseconds. */
function recordMsOf({ definitions, pendingMs, retentionMs }: RetrySettings, name: string): number {
  return pendingMs + (definitions.get(name)?.retentionMs ?? retentionMs)
}

/** One retry of one task. */
class Retry {
  private readonly job = newJobName()
  /** The key of the slot that `maxPerOwner` needs. */
  private slot: string | undefined

  constructor(
    private readonly settings: RetrySettings, private readonly found: VersionedRecord,
    private readonly work: Work, private readonly request: RetryRequest,
  ) {}

  async perform(): Promise<TaskSnapshot | undefined> {
    const { settings: { ledger, index, pendingMs, sweepMs }, found, job } = this
    this.slot = await this.acquireSlot()
    const { slot } = this
    const entry = jobId({ id: found.record.id, job })
    await index?.add(entry, sweepMs)
    const { holder } = ledger
    const expiresAt = Date.now() + pendingMs
    const pool = this.poolNow()
    const outcome = await ledger.restart(found, { job, holder, slot, pool, expiresAt })
    if (outcome?.before === undefined) {
      index?.remove(entry)
      return this.lose(outcome?.record)
    }
    await this.enqueue(outcome, outcome.before)
    await this.renewBelongings(outcome.record)
    return snapshotOf(outcome.record)
  }

  /** Acquires a slot if `maxPerOwner` needs one. Returns its key. */
  private async acquireSlot(): Promise<string | undefined> {
    const { settings: { ledger, definitions, pendingMs: ttlMs }, found: { record }, job } = this
    const { id, name } = record
    const maxPerOwner = definitions.get(name)?.maxPerOwner
    const counted = this.request.counted(record)
    if (counted === undefined || !hasSlots(maxPerOwner)) return undefined
    return acquireSlot(ledger.store, { name, maxPerOwner }, counted, { id, job, ttlMs })
  }

  /** Returns the pool of the definition, because no process may run the earlier pool any more. */
  private poolNow(): string | undefined {
    const { settings: { definitions }, found: { record: { name, pool } } } = this
    const definition = definitions.get(name)
    if (!definition) return pool
    return definition.pool === DEFAULT_POOL ? undefined : definition.pool
  }

  /** Ends a retry that another request has forestalled: a retry, or the deletion of the task. */
  private async lose(now: TaskRecord | undefined): Promise<undefined> {
    // Two retries of a task acquire the same slot, and the winner needs it.
    if (now && now.slot === this.slot) await this.passSlot(now)
    else await this.releaseSlot()
    if (!now || !this.request.isVisible(now)) return undefined
    requireRetryable(now)
    throw httpError('conflict', { message: 'Another request has retried this task meanwhile.' })
  }

  /** Enqueues the job. Restores the record if the queue has no space. */
  private async enqueue(now: VersionedRecord, before: TaskRecord): Promise<void> {
    const { settings: { queue, identity, definitions }, work, job } = this
    const { id: taskId, name, pool, priority = 0 } = now.record
    const { input, context } = work
    const { attempts, backoff } = definitions.get(name) ?? work
    let outcome: EnqueueOutcome
    try {
      const store = queue.durable ? await identity.read() : undefined
      const taskJob = new TaskJob({ taskId, job, name, input, context, store }, now)
      const options = { attempts, backoff, priority }
      outcome = await poolOf(queue, pool).enqueue(taskJob, options)
      if (outcome === 'accepted') return
    } catch (cause) {
      // It may be in the queue. If it is not, a sweep enqueues it.
      throw httpError('service_unavailable', { headers: { 'retry-after': '5' }, cause })
    }
    await this.undo(now, before)
    throw notEnqueued(outcome)
  }

  /** Restores the record, unless another process has changed it: that one runs the task. */
  private async undo(now: VersionedRecord, before: TaskRecord): Promise<void> {
    const { ledger, index } = this.settings
    if (!await ledger.restore(now, before)) {
      throw httpError('service_unavailable', { headers: { 'retry-after': '5' } })
    }
    index?.remove(jobId(now.record))
    await this.releaseSlot()
  }

  private async passSlot({ id, job: to }: TaskRecord): Promise<void> {
    const { settings: { ledger: { store }, pendingMs }, slot, job: from } = this
    if (slot === undefined) return
    await passSlot(store, slot, { id, from, to }, pendingMs).catch(() => undefined)
  }

  private async releaseSlot(): Promise<void> {
    const { settings: { ledger: { store } }, slot, job, found: { record: { id } } } = this
    if (slot !== undefined) await releaseSlot(store, slot, { id, job }).catch(() => undefined)
  }

  /**
   * Renews the claim, the large input, the checkpoint and the files of the task, because they had
   * the lifetime of a final task. Failures matter only if the task is unfinished for longer than
   * that.
   */
  private async renewBelongings(record: TaskRecord): Promise<void> {
    const { ledger: { store }, definitions, blobs } = this.settings
    const { id, name, claim, blobs: files = [] } = record
    const recordMs = recordMsOf(this.settings, name)
    try {
      await renewLargeWork(store, record, { ttlMs: recordMs + CLAIM_MARGIN_MS })
      if (definitions.get(name)?.checkpoint) await renewCheckpoint(store, id, { ttlMs: recordMs })
      const keys = files.map((file) => fileKey(id, file))
      if (blobs) await renewFiles(blobs, keys, recordMs + CLAIM_MARGIN_MS)
      if (claim === undefined) return
      await settleTaskClaim(store, claim, { taskId: id, recordKey: taskKey(id), recordMs })
    } catch {
      // They expire early.
    }
  }
}
