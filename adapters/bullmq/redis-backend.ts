import type { ConnectionOptions, Job as BullJob, Queue as BullQueue, Worker } from 'bullmq'
import type { Connection, Silence } from '../redis/silence.js'
import type { Backend, JobSettings, Processor, WorkerSettings } from './backend.js'
import { checkPipelining, disconnect, silenceOf } from './connection.js'
import type { QueueCounts } from '../../src/queues/queue.js'
import { releaseLate } from './late-jobs.js'
import type { JobData } from './job.js'
import { loadBullMQ } from './load-bullmq.js'
import { redisCounts } from './redis-counts.js'
import { serverTime, untilDue } from './server-time.js'

/** A queue of BullMQ on Redis. */
export class RedisBackend implements Backend {
  readonly queue: BullQueue<JobData>
  private readonly prefix: string
  private readonly silence: Silence
  private workerSilence: Silence | undefined
  private closing = false

  constructor(
    private readonly connection: ConnectionOptions, namespace: string, private readonly name: string,
    private readonly timeoutMs: number,
  ) {
    checkPipelining(connection)
    this.prefix = `{${namespace}}`
    const { Queue } = loadBullMQ()
    this.queue = new Queue<JobData>(name, { connection, prefix: this.prefix })
    this.silence = silenceOf(this.queue, timeoutMs)
  }

  createWorker(run: Processor, settings: WorkerSettings): Worker<JobData> {
    const { Worker } = loadBullMQ()
    const worker = new Worker<JobData>(this.name, run, {
      ...settings, connection: this.connection, prefix: this.prefix,
    })
    // An idle worker waits for no answer, so it would not notice a lost connection.
    this.workerSilence = silenceOf(worker, this.timeoutMs)
    return worker
  }

  async add(name: string, data: JobData, options: JobSettings): Promise<void> {
    // BullMQ counts a delay from the timestamp.
    const timed = options.delay === undefined
      ? options
      : { ...options, timestamp: await serverTime(this.queue) }
    await this.queue.add(name, data, timed)
  }

  dataOf({ data }: BullJob<JobData>): JobData {
    return data
  }

  untilDue(job: BullJob<JobData>): Promise<number> {
    return untilDue(this.queue, job)
  }

  now(): Promise<number> {
    return serverTime(this.queue)
  }

  counts(): Promise<QueueCounts> {
    return redisCounts(this.queue)
  }

  async remove(jobId: string): Promise<boolean> {
    const job = await this.queue.getJob(jobId)
    // A dead job is left for `onDead`.
    if (!job || job.finishedOn !== undefined) return false
    // 0 means that the job is running.
    return await this.queue.remove(jobId) === 1
  }

  onLate(): void {
    void this.silence.check()
  }

  async checkWorker(worker: Worker<JobData>): Promise<void> {
    const isSilent = await this.workerSilence?.check()
    if (this.closing) return
    if (!isSilent) return releaseLate(this.queue)
    // The blocking connection is lost too. BullMQ itself would notice only after its longest wait.
    const blocking = await worker.getBackend().blockingClient as Connection | undefined
    if (blocking?.status === 'ready') blocking.disconnect(true)
  }

  stopChecks(): void {
    this.closing = true
    this.silence.close()
    this.workerSilence?.close()
  }

  disconnect(): void {
    disconnect(this.queue, this.connection)
  }
}
