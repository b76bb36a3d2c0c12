import type { Job as BullJob, Queue as BullQueue } from 'bullmq'
import type { QueueCounts } from '../../src/queues/queue.js'
import type { JobData } from './job.js'
import { serverTime } from './server-time.js'

/** Counts the jobs of a queue on Redis. The cost does not grow with their number. */
export async function redisCounts(queue: BullQueue<JobData>): Promise<QueueCounts> {
  const numbers = await queue.getJobCounts('active', 'waiting', 'prioritized', 'delayed')
  const { active = 0, waiting = 0, prioritized = 0, delayed = 0 } = numbers
  const counts = { running: active, waiting: waiting + prioritized, delayed }
  if (counts.waiting === 0) return counts
  const [now, ...candidates] = await Promise.all([
    serverTime(queue),
    oldest(queue, 'waiting', 0),
    prioritized > 0 ? oldest(queue, 'prioritized', 0) : undefined,
    prioritized > 0 ? oldestOfLastPriority(queue, prioritized) : undefined,
  ])
  const found = candidates.filter((job) => job !== undefined)
  // The jobs may have started meanwhile.
  if (found.length === 0) return counts
  const dueAt = Math.min(...found.map(dueTime))
  return { ...counts, oldestWaitingMs: Math.max(now - dueAt, 0) }
}

type Waiting = BullJob<JobData> | undefined

/** Returns the job at a place of the order in which jobs start. */
async function oldest(
  queue: BullQueue<JobData>, list: 'waiting' | 'prioritized', at: number,
): Promise<Waiting> {
  const [job] = await queue.getJobs([list], at, at, true)
  return job
}

/**
 * Returns the first job of the priority that starts last. It has usually waited longest, because
 * jobs of other priorities overtake it.
 */
async function oldestOfLastPriority(queue: BullQueue<JobData>, count: number): Promise<Waiting> {
  const last = await oldest(queue, 'prioritized', count - 1)
  if (last === undefined) return undefined
  const numbers = await queue.getCountsPerPriority([last.priority])
  return oldest(queue, 'prioritized', Math.max(count - (numbers[last.priority] ?? 1), 0))
}

/** Returns the time at which a waiting job became due. */
function dueTime({ timestamp, opts: { delay = 0 }, processedOn = 0 }: BullJob<JobData>): number {
  return Math.max(timestamp + delay, processedOn)
}
