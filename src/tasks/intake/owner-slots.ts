import { createHash } from 'node:crypto'
import type { Store } from '../../stores/store.js'
import { decode } from '../record/codec.js'
import { elapsed } from '../record/elapsed.js'
import { jobId, taskKey, taskOf } from '../record/ids.js'
import type { TaskRecord } from '../record/record.js'
import { isFinal } from '../record/state.js'
import { tooManyTasks } from './not-enqueued.js'

/**
 * Time for which a slot belongs to a job that no record names, from the first other request for it,
 * in milliseconds. The slot is written before the record, so the task may be about to be created or
 * retried.
 */
const GRACE_MS = 10_000

/** Reads of one slot that changes while it is taken. */
const TRIES = 5

/** Returns whether `maxPerOwner` of a definition is counted by slots. */
export function hasSlots(maxPerOwner: number | undefined): maxPerOwner is number {
  return maxPerOwner !== undefined && maxPerOwner !== Infinity
}

/**
 * Acquires one of the `maxPerOwner` slots of one party (see `countedAs`) for an unfinished task. A
 * slot is a numbered key whose value is the id of a job. The slot of a task that has ended can be
 * acquired by another one, so slots stay right when a process dies; a counter would not.
 *
 * @returns the key of the slot.
 * @throws {HttpError} 429 `too_many_tasks`: all slots are taken.
 */
export async function acquireSlot(
  store: Store, definition: { readonly name: string, readonly maxPerOwner: number },
  counted: string, { id, job, ttlMs }: SlotTask,
): Promise<string> {
  for (let n = 0; n < definition.maxPerOwner; n++) {
    const key = `slot:${definition.name}:${String(n)}:${digestOf(counted)}`
    if (await takeSlot(store, key, { id, job, ttlMs })) return key
  }
  throw tooManyTasks()
}

/** Takes one slot for a task, or finds that the task has it. `false` if another task holds it. */
async function takeSlot(
  store: Store, key: string, { id, job, ttlMs }: SlotTask,
): Promise<boolean> {
  const own = jobId({ id, job })
  for (let tried = 0; tried < TRIES; tried++) {
    const outcome = await store.create(key, own, { ttlMs })
    if (outcome.created) return true
    const { value, revision } = outcome.entry
    const entry = await store.get(taskKey(taskOf(value)))
    const holder = entry && decode(taskOf(value), entry.value)
    // Another request for the same task.
    if (taskOf(value) === id && (!holder || !isFinal(holder.state))) return true
    if (holder?.slot === key && !isFinal(holder.state)) return false
    const mayBegin = taskOf(value) !== id && (!holder || jobId(holder) !== value)
    if (mayBegin && await elapsed(store, `${key}:${revision}`, GRACE_MS) < GRACE_MS) return false
    // Fails if the slot was released or acquired since it was read.
    if ((await store.replace(key, own, revision, { ttlMs })).replaced) return true
  }
  return false
}

/** The task that acquires a slot, and its lifetime. */
export interface SlotTask extends Pick<TaskRecord, 'id' | 'job'> {
  readonly ttlMs: number
}

/** Returns the key that stands for all slots of one party. */
export function slotsOf(name: string, counted: string): string {
  return `slots:${name}:${digestOf(counted)}`
}

function digestOf(counted: string): string {
  return createHash('sha256').update(counted).digest('base64url')
}

/** Releases a slot, unless another task, or a retry of this one, has acquired it meanwhile. */
export async function releaseSlot(
  store: Store, key: string, task: Pick<TaskRecord, 'id' | 'job'>,
): Promise<void> {
  const entry = await store.get(key)
  if (entry?.value === jobId(task)) await store.delete(key, entry.revision)
}

/**
 * Passes a slot to another job of the same task, which was retried by two requests at once. The
 * record names the slot, but the request that lost has written its own job into it.
 */
export async function passSlot(
  store: Store, key: string, { id, from, to }: {
    readonly id: string, readonly from: string, readonly to: string,
  }, ttlMs: number,
): Promise<void> {
  const entry = await store.get(key)
  if (entry?.value !== jobId({ id, job: from })) return
  await store.replace(key, jobId({ id, job: to }), entry.revision, { ttlMs })
}
