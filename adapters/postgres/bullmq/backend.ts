import {
  PostgresQueueBackend, Queue as BullQueue, withBackend, type JobsOptions, type Worker,
} from 'bullmq'
import type { Backend, Processor, WorkerSettings } from '../../bullmq/backend.js'
import type { JobData } from '../../bullmq/job.js'
import { HostConnection } from './connection.js'
import type { JobDatabase } from './job-database.js'

/** A queue of BullMQ in the database of the host. */
export class PostgresBackend implements Backend {
  readonly queue: BullQueue<JobData>
  private readonly bull

  constructor(
    private readonly database: JobDatabase, schema: string, private readonly name: string,
  ) {
    this.bull = withBackend<PostgresQueueBackend, undefined>((queue, options) => (
      new PostgresQueueBackend(new HostConnection(database, schema, queue), queue, options)
    ))
    this.queue = new this.bull.Queue<JobData>(name, { connection: undefined, skipMetasUpdate: true })
  }

  createWorker(run: Processor, settings: WorkerSettings): Worker<JobData> {
    return new this.bull.Worker<JobData>(this.name, run, { ...settings, connection: undefined })
  }

  /** The server sets the timestamp. */
  withTimestamp(options: JobsOptions): Promise<JobsOptions> {
    return Promise.resolve(options)
  }

  /** The server releases no job early. */
  untilDue(): Promise<number> {
    return Promise.resolve(0)
  }

  /**
   * Removes a job in one statement. BullMQ's own function checks and removes in two, so a worker
   * may have taken the job in between.
   */
  async remove(jobId: string): Promise<boolean> {
    const rows = await this.database.query(
      'DELETE FROM {schema}.job WHERE queue = $1 AND id = $2 '
      + 'AND state IN (\'waiting\', \'delayed\') RETURNING id',
      [this.name, jobId],
    )
    return rows.length > 0
  }

  onLate(): void {
    // A late statement is cancelled with its connection.
  }

  checkWorker(): Promise<void> {
    return Promise.resolve()
  }

  stopChecks(): void {
    // The notices end with the connection of the worker.
  }

  disconnect(): void {
    void this.queue.getBackend().close()
  }
}
