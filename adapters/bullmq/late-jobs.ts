import type { Queue as BullQueue } from 'bullmq'
import type { JobData } from './job.js'
import { isDelayed, serverTime } from './server-time.js'

/** Difference of clocks below which a worker releases delayed jobs in time. In milliseconds. */
const TOLERANCE_MS = 500

/** Maximum number of jobs that are released at once. */
const PAGE_SIZE = 100

/**
 * Releases delayed jobs that are due by the clock of Redis, if the clock of this process is behind.
 * BullMQ's workers release delayed jobs by their own clock, so such a worker would start them late.
 */
export async function releaseLate(queue: BullQueue<JobData>): Promise<void> {
  const now = await serverTime(queue)
  if (now - Date.now() < TOLERANCE_MS) return
  // In the order in which they become due.
  for (const job of await queue.getDelayed(0, PAGE_SIZE - 1)) {
    const { timestamp, opts: { delay = 0 } } = job
    if (!isDelayed(job)) continue
    if (timestamp + delay > now) return
    // Another worker may have released it.
    await job.promote().catch(() => undefined)
  }
}
