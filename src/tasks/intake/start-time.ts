import type { Queue } from '../../queues/queue.js'
import { LONGEST_MS } from '../definition/bounds.js'
import type { TaskRecord } from '../record/record.js'

/** The start of a task that was submitted for later. */
export interface Start {
  /** Time of the start, in milliseconds since 1970. */
  readonly at: number
  /** Time until the start, in milliseconds. */
  readonly delayMs: number
}

/** Options of a submission for its start. */
interface StartOptions {
  readonly startAt?: Date | undefined
  readonly delayMs?: number | undefined
}

/**
 * Returns the time by the clock of the server behind the queue, so that the clocks of processes do
 * not matter. In milliseconds since 1970.
 */
export async function queueTime(queue: Queue): Promise<number> {
  return queue.now ? queue.now() : Date.now()
}

/**
 * Returns the start that the options of a submission ask for; `undefined` for now.
 *
 * @throws {TypeError} The options make no sense.
 */
export async function startOf(
  queue: Queue, { startAt, delayMs }: StartOptions,
): Promise<Start | undefined> {
  if (startAt === undefined && (delayMs ?? 0) === 0) return undefined
  if (startAt !== undefined && delayMs !== undefined) {
    throw new TypeError('pass startAt or delayMs, not both')
  }
  if (startAt !== undefined && !(startAt instanceof Date && !Number.isNaN(startAt.getTime()))) {
    throw new TypeError('startAt must be a valid Date')
  }
  const now = await queueTime(queue)
  const at = startAt?.getTime() ?? now + Math.ceil(delayMs ?? 0)
  const start = { at, delayMs: delayMs ?? at - now }
  if (delayMs === undefined && start.delayMs <= 0) return undefined
  if (start.delayMs >= 0 && start.delayMs <= LONGEST_MS) return start
  throw new TypeError('delayMs must be from 0 to 100 years, and startAt less than 100 years ahead')
}

/** Returns the milliseconds until the first run of a task may begin; 0 if it may begin now. */
export async function remainingDelayMs(
  queue: Queue, { startAt, attempt }: Pick<TaskRecord, 'startAt' | 'attempt'>,
): Promise<number> {
  if (startAt === undefined || attempt > 0) return 0
  return Math.max(Math.ceil(startAt - await queueTime(queue)), 0)
}
