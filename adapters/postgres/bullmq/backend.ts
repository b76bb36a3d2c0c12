import timers from 'node:timers'
import type {
  BackendFactory, ConnectionOptions, Job as BullJob, PostgresQueueBackend, Queue as BullQueue,
  RedisQueueBackend, Worker,
} from 'bullmq'
import type { QueueCounts } from '../../../src/queues/queue.js'
import type { Backend, JobSettings, Processor, WorkerSettings } from '../../bullmq/backend.js'
import type { JobData } from '../../bullmq/job.js'
import { loadBullMQ } from '../../bullmq/load-bullmq.js'
import { openConnection } from './connection.js'
import { openBackend } from './host-backend.js'
import type { JobDatabase } from './job-database.js'
import { JobWrites } from './job-writes.js'

// Captured at once: the server keeps real time, also under a test's fake timers.
const { setTimeout } = timers

/** The types of BullMQ's classes name Redis by default. Nothing here depends on it. */
type Factory = BackendFactory<RedisQueueBackend, ConnectionOptions>

/** BullMQ requires the option. The factory of the backend has the connection. */
const UNUSED = { connection: {} }

/** Shortest time between two notices, in milliseconds. */
const ANNOUNCE_MS = 10

const NOW = 'SELECT (extract(epoch FROM clock_timestamp()) * 1000)::bigint AS now_ms'

/** BullMQ keeps the due time of a job, and the start of its latest attempt. */
const COUNTS = `SELECT count(*) FILTER (WHERE state = 'active')::integer AS running,
  count(*) FILTER (WHERE state = 'waiting')::integer AS waiting,
  count(*) FILTER (WHERE state = 'delayed')::integer AS delayed,
  (extract(epoch FROM clock_timestamp()) * 1000)::float8
    - min(greatest(added_at_ms, process_at_ms, processed_at_ms))
      FILTER (WHERE state = 'waiting') AS oldest_ms
FROM {schema}.job WHERE queue = $1 AND state IN ('active', 'waiting', 'delayed')`

/** A queue of BullMQ in the database of the host. */
export class PostgresBackend implements Backend {
  readonly queue: BullQueue<JobData>
  private readonly factory: Factory
  private readonly jobs: JobWrites
  private hasNews = false
  private announcing: ReturnType<typeof setTimeout> | undefined

  constructor(
    private readonly database: JobDatabase, schema: string, private readonly name: string,
  ) {
    const { Queue } = loadBullMQ()
    const factory: BackendFactory<PostgresQueueBackend, ConnectionOptions> = (queue, options) => (
      openBackend(openConnection(database, schema, queue), queue, options as never, database)
    )
    this.jobs = new JobWrites(database, name)
    this.factory = factory as unknown as Factory
    this.queue = new Queue<JobData>(name, { ...UNUSED, skipMetasUpdate: true }, this.factory)
  }

  createWorker(run: Processor, settings: WorkerSettings): Worker<JobData> {
    const { Worker } = loadBullMQ()
    return new Worker<JobData>(this.name, run, { ...settings, ...UNUSED }, this.factory)
  }

  /**
   * Adds a job, and then notifies the workers. BullMQ's own function notifies in its transaction.
   * PostgreSQL commits transactions with notices one after the other.
   */
  async add(name: string, data: JobData, settings: JobSettings): Promise<void> {
    const { jobId: id, attempts, priority = 0 } = settings
    const delayMs = Math.ceil(settings.delay ?? 0)
    const options = JSON.stringify({ ...settings, delay: delayMs })
    await this.jobs.add({
      id, name, data: JSON.stringify(toStored(data)), options, delayMs, attempts, priority,
    })
    this.announce()
  }

  dataOf({ data }: BullJob<JobData>): JobData {
    return fromStored(data)
  }

  /** The server releases no job early. */
  untilDue(): Promise<number> {
    return Promise.resolve(0)
  }

  async now(): Promise<number> {
    const [row] = await this.database.query<{ readonly now_ms: string }>(NOW, [])
    return Number(row?.now_ms)
  }

  async counts(): Promise<QueueCounts> {
    interface Row extends Omit<QueueCounts, 'oldestWaitingMs'> { readonly oldest_ms: number | null }
    const [row] = await this.database.query<Row>(COUNTS, [this.name])
    const { running = 0, waiting = 0, delayed = 0, oldest_ms: oldestMs = null } = row ?? {}
    const counts = { running, waiting, delayed }
    return oldestMs === null ? counts : { ...counts, oldestWaitingMs: Math.max(oldestMs, 0) }
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

  /** Notifies the workers at once, and then at most every few milliseconds. */
  private announce(): void {
    this.hasNews = true
    if (this.announcing !== undefined) return
    this.hasNews = false
    this.announcing = setTimeout(() => {
      this.announcing = undefined
      if (this.hasNews) this.announce()
    }, ANNOUNCE_MS)
    this.announcing.unref()
    // If this fails, the workers find the job by polling.
    this.database.query('SELECT pg_notify($1, $2)', ['bullmq_jobs', this.name])
      .catch(() => undefined)
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

/**
 * `jsonb` refuses some text and changes the order of members, so the input is kept as text. A board
 * shows the id of the task beside it.
 */
function toStored({ taskId, store, ...rest }: JobData): JobData {
  return { taskId, store, input: JSON.stringify(rest) }
}

function fromStored({ taskId, store, input }: JobData): JobData {
  return { taskId, store, ...JSON.parse(input as string) as Omit<JobData, 'taskId' | 'store'> }
}
