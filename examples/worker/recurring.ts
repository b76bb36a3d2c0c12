import { setTimeout as sleep } from 'node:timers/promises'
import { Queue, Worker, type ConnectionOptions } from 'bullmq'
import type { Tasks } from 'longhaul'
import { report } from '../report.js'

// #region recurring
/** Submits a report at each time of a cron pattern, by default every night at 03:00 UTC. */
export async function startSchedule(
  tasks: Pick<Tasks, 'submit'>, connection: ConnectionOptions, pattern = '0 3 * * *',
) {
  const queue = new Queue('schedules', { connection })
  await setScheduler(queue, pattern)
  const worker = new Worker('schedules', async ({ id = '' }) => {
    // BullMQ names the job of a firing `repeat:report:<its time in milliseconds>`.
    const time = new Date(Number(id.split(':').at(-1)))
    // A firing that runs twice submits the same id, which makes one task.
    await tasks.submit(report, { year: time.getUTCFullYear() }, { id: `report-${time.getTime()}` })
    // A firing whose worker was killed runs again within 12 s.
  }, { connection, lockDuration: 8000, stalledInterval: 4000 })
  worker.on('error', ({ message }) => { console.error(`Schedules: ${message}`) })
  return {
    queue,
    async stop() {
      await worker.close()
      await queue.close()
    },
  }
}

/** Creates the scheduler. A new pattern replaces the old one and its next firing. */
async function setScheduler(queue: Queue, pattern: string): Promise<void> {
  for (let attempt = 1; ; attempt++) {
    try {
      // Setting it again would drop a firing that is late.
      if ((await queue.getJobScheduler('report'))?.pattern === pattern) return
      await queue.upsertJobScheduler('report', { pattern, tz: 'UTC' }, {
        opts: {
          attempts: 10, backoff: { type: 'exponential', delay: 1000 },
          removeOnComplete: true, removeOnFail: 100,
        },
      })
      return
    } catch (error) {
      // BullMQ rejects a change in the moment in which the next firing starts.
      if (attempt === 10) throw error
      await sleep(250)
    }
  }
}
// #endregion
