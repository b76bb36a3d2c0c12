import { httpError } from '../../http/errors.js'
import { acquireInTime } from '../../stores/acquire.js'
import { snapshotOf } from '../record/codec.js'
import { releaseInput } from '../record/release-input.js'
import { releaseUnlessUsed } from '../record/external.js'
import { jobId, taskKey } from '../record/ids.js'
import { Ledger, type VersionedRecord } from '../record/ledger.js'
import { toListed } from '../record/listed.js'
import { toTaskText } from '../record/record.js'
import {
  checkAcceptable, checkSameTask, touch, type Accepted, type AcceptSettings,
} from './accept-task.js'
import type { CommitWatch } from './commit-watch.js'
import { isEnqueuedLater } from './enqueue-committed.js'
import type { NewTask } from './new-task.js'
import type { OpenTransaction } from './open-transaction.js'
import { acquireSlot, hasSlots, releaseSlot, slotsOf } from './owner-slots.js'

/**
 * Time of the first check of a task, in milliseconds. A day in the past puts it before all tasks
 * whose check is due, so that it never waits for thousands of them. The sweep leaves a task of the
 * last two seconds to the process that has accepted it.
 */
const FIRST_MS = -86_400_000

/** Settings of `acceptInTransaction`. */
export interface TransactionSettings extends AcceptSettings {
  readonly commits: CommitWatch
}

/**
 * Accepts one task in a transaction of the application. Its record, its slot of `maxPerOwner` and
 * its entry of the index commit with the transaction. Its job is enqueued after the commit: at once
 * by this process, or by the sweep of any worker if this process dies in between.
 *
 * @throws {HttpError} 409 `conflict`, 429 `too_many_tasks`, 503 `service_unavailable` or
 * `shutting_down`. Nothing is written then, and the transaction stays usable.
 */
export async function acceptInTransaction(
  settings: TransactionSettings, transaction: OpenTransaction, task: NewTask,
): Promise<Accepted> {
  checkAcceptable(settings, task.options)
  const ledger = new Ledger(transaction.store)
  const existing = await findExisting(transaction, ledger, task)
  if (existing) return acceptExisting(settings, ledger, existing, task)
  const slot = await reserveSlot(transaction, task)
  const record = task.toRecord(slot, {
    // The process that enqueues the job becomes the holder, if its queue is in memory.
    holder: undefined, enqueuedLater: true,
  })
  await task.storeInput(ledger.store, record, settings.retentionMs)
  const text = toTaskText(record)
  settings.commits.expect(record)
  const outcome = await ledger.create(record, { text, isFresh: false })
  if (!outcome.created) {
    if (slot !== undefined) await releaseSlot(ledger.store, slot, record)
    await releaseInput({ ...settings, ledger }, { ...record, keeps: undefined })
    throw httpError('conflict', { message: 'A task of this id was accepted meanwhile; try again.' })
  }
  await transaction.index.add(jobId(record), FIRST_MS)
  await transaction.index.put(toListed(record, record.createdAt))
  return { task: snapshotOf(record, text), created: true }
}

/** Finds the task that has the id already. */
async function findExisting(
  { store }: OpenTransaction, ledger: Ledger, { id, options }: NewTask,
): Promise<VersionedRecord | undefined> {
  if (options.id === undefined || options.isNewId === true) return undefined
  if (await acquireInTime(store, taskKey(id))) return ledger.load(id)
  throw httpError('conflict', {
    message: 'Another transaction that is still open submits a task of this id; try again.',
    headers: { 'retry-after': '1' },
  })
}

async function acceptExisting(
  settings: AcceptSettings, inside: Ledger, existing: VersionedRecord, task: NewTask,
): Promise<Accepted> {
  const { record } = existing
  checkSameTask(record, task)
  // A task that was accepted without a transaction is deleted again if its job cannot be enqueued.
  // A new revision prevents that.
  if (record.state === 'queued' && !isEnqueuedLater(record)) await touch(inside, existing, task)
  await releaseUnlessUsed(inside, task.definition, task.input, task.id)
  return { task: snapshotOf(record), created: false }
}

/** Acquires a slot if `maxPerOwner` needs one. Returns its key. */
async function reserveSlot(
  { store }: OpenTransaction, { definition: { name, maxPerOwner }, options, id, jobName: job, ttlMs }: NewTask,
): Promise<string | undefined> {
  const { counted } = options
  if (counted === undefined || !hasSlots(maxPerOwner)) return undefined
  // Whether a slot is free depends on the other transaction, so it has to end first.
  if (!await acquireInTime(store, slotsOf(name, counted))) {
    throw httpError('service_unavailable', {
      message: 'Another transaction that is still open submits a task for this owner; try again.',
      headers: { 'retry-after': '1' },
    })
  }
  return acquireSlot(store, { name, maxPerOwner }, counted, { id, job, ttlMs })
}
