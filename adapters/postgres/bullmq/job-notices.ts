import timers from 'node:timers'
import { MonitoredChannel } from '../changes/monitored-channel.js'
import type { JobDatabase } from './job-database.js'

// Captured at once: the server keeps real time, also under a test's fake timers.
const { setInterval, clearInterval } = timers

/** BullMQ's channel. The payload is the name of a queue that has a job. */
const CHANNEL = 'bullmq_jobs'

/** Interval at which a worker looks for jobs while there are no notices, in milliseconds. */
const POLL_MS = 1000

/**
 * Notices of new jobs for the worker of one queue, by LISTEN on a connection of its own. While they
 * do not arrive, the worker polls.
 */
export class JobNotices {
  private readonly channel: MonitoredChannel
  private polling: ReturnType<typeof setInterval> | undefined

  /** @param notify - called when there may be a job */
  constructor(database: JobDatabase, queue: string, private readonly notify: () => void) {
    this.channel = new MonitoredChannel({
      listen: (subscriber) => database.listen(CHANNEL, subscriber),
      send: (payload) => database.query('SELECT pg_notify($1, $2)', [CHANNEL, payload]),
    }, {
      onNotice: (payload) => { if (payload === queue) notify() },
      onWorking: () => {
        this.poll(false)
        // Jobs may have come in between.
        notify()
      },
      onSilent: () => { this.poll(true) },
    })
    void this.channel.open()
  }

  close(): void {
    this.channel.close()
    this.poll(false)
  }

  private poll(wanted: boolean): void {
    if (wanted === (this.polling !== undefined)) return
    clearInterval(this.polling)
    this.polling = wanted ? setInterval(this.notify, POLL_MS).unref() : undefined
  }
}
