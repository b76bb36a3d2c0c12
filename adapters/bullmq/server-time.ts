import type { Job as BullJob, Queue as BullQueue } from 'bullmq'
import type { JobData } from './job.js'

/** Returns the time of Redis in milliseconds since 1970; that of this process if it is unknown. */
export async function serverTime(queue: Pick<BullQueue, 'getBackend'>): Promise<number> {
  const client = await queue.getBackend().client as { time?: () => Promise<unknown> }
  const told = typeof client.time === 'function' ? await client.time() : undefined
  if (!Array.isArray(told)) return Date.now()
  return Number(told[0]) * 1000 + Math.floor(Number(told[1]) / 1000)
}

/** Returns true for the first attempt of a delayed job. */
export function isDelayed({ attemptsMade, opts: { delay = 0 } }: BullJob<JobData>): boolean {
  return delay > 0 && attemptsMade === 0
}

/**
 * Returns the milliseconds until a delayed job is due by the clock of Redis; 0 or less if it is.
 */
export async function untilDue(
  queue: Pick<BullQueue, 'getBackend'>, { timestamp, opts: { delay = 0 } }: BullJob<JobData>,
): Promise<number> {
  return timestamp + delay - await serverTime(queue)
}
