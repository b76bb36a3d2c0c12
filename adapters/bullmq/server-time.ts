import type { Job as BullJob, Queue as BullQueue } from 'bullmq'
import type { JobData } from './job.js'

/**
 * The time of Redis in milliseconds since 1970; that of this process where a client can't tell it.
 */
export async function serverTime(queue: Pick<BullQueue, 'getBackend'>): Promise<number> {
  const client = await queue.getBackend().client as { time?: () => Promise<unknown> }
  const told = typeof client.time === 'function' ? await client.time() : undefined
  if (!Array.isArray(told)) return Date.now()
  return Number(told[0]) * 1000 + Math.floor(Number(told[1]) / 1000)
}

/** Whether this is the first attempt of a job that had to wait for its time. */
export function isDelayed({ attemptsMade, opts: { delay = 0 } }: BullJob<JobData>): boolean {
  return delay > 0 && attemptsMade === 0
}

/** Milliseconds until a delayed job is due by the clock of Redis; 0 or less once it is. */
export async function untilDue(queue: Pick<BullQueue, 'getBackend'>, { timestamp, opts: { delay = 0 } }: BullJob<JobData>): Promise<number> {
  return timestamp + delay - await serverTime(queue)
}
