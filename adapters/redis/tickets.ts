import type { ConnectionOptions, Job as BullJob, JobsOptions, Queue, Worker } from 'bullmq'
import { settles } from '../../src/runtime/timers.js'
import type { RedisClient } from './client.js'
import { Silence, type Connected } from './faults.js'
import { loadBullMQ } from './load-bullmq.js'

/** A ready task, in the form of the scripts. `run` is the number of its next run. */
export type Ticket = readonly [
  pool: string, priority: number, name: string, id: string, run: number, birth: string,
]

/** Data of a job of BullMQ. */
export interface TicketData {
  readonly taskId: string
}

export type TicketJob = BullJob<TicketData>

export interface TicketsOptions {
  readonly connection: BullConnection
  /** BullMQ's name of the queue of the default pool. */
  readonly name: string
  /** Time after which BullMQ takes a job from a process that does not renew its lock. */
  readonly lockMs: number
  /** Time after which a late reply leads to a check of the connection, in milliseconds. */
  readonly timeoutMs: number
  readonly onError: (error: Error) => void
}

const MAX_STALLED = 1_000_000
const REMOVED = { removeOnComplete: true, removeOnFail: true }

/**
 * The queues of BullMQ, one for each pool. A job is a ticket: it says that a task may be ready. It
 * may be lost, and it may come twice: the script that begins the run decides. So no job ever fails
 * or is retried, and none is delayed.
 */
export class Tickets {
  private readonly queues = new Map<string, Queue<TicketData>>()
  private readonly workers = new Map<string, Worker<TicketData>>()
  private readonly silences = new Map<object, Silence>()

  constructor(private readonly options: TicketsOptions) {}

  async add(tickets: readonly Ticket[]): Promise<void> {
    const byPool = new Map<string, Ticket[]>()
    for (const ticket of tickets) {
      const own = byPool.get(ticket[0])
      if (own === undefined) byPool.set(ticket[0], [ticket])
      else own.push(ticket)
    }
    await Promise.all([...byPool].map(([pool, own]) => {
      const queue = this.queueOf(pool)
      const jobs = own.map(jobOf)
      const [first] = jobs
      const added: Promise<unknown> = first !== undefined && jobs.length === 1
        ? queue.add(first.name, first.data, first.opts) : queue.addBulk(jobs)
      return this.noticed(queue, added)
    }))
  }

  /**
   * Takes the next job of a pool for this process, if there is one.
   *
   * @param done - job of this pool that is completed in the same command
   */
  async next(pool: string, token: string, done?: TicketJob): Promise<TicketJob | undefined> {
    const worker = this.workerOf(pool)
    if (done !== undefined) {
      const next = await this.noticed(worker, this.complete(done, token, true))
      if (Array.isArray(next)) {
        const [data, id] = next as [Parameters<typeof BullJob.fromJSON>[1] | null, string?]
        return data ? loadBullMQ().Job.fromJSON<TicketData>(worker, data, id) : undefined
      }
    }
    return this.noticed(worker, worker.getNextJob(token, { block: false }))
  }

  /** Completes a job. BullMQ may have given it to another process, which does no harm. */
  complete(job: TicketJob, token: string, isNextWanted = false): Promise<unknown> {
    return job.moveToCompleted(null, token, isNextWanted).catch(() => undefined)
  }

  /** Gives back a job whose run has not begun. */
  async giveBack(job: TicketJob, token: string): Promise<void> {
    await job.moveToWait(token)
  }

  /** Renews the locks of jobs, so that boards show them as active. */
  async renew(jobs: readonly TicketJob[], token: string): Promise<void> {
    await Promise.all(jobs.map((job) => (
      job.extendLock(token, this.options.lockMs).catch(() => undefined)
    )))
  }

  /** BullMQ's queue of a pool. */
  queueOf(pool: string): Queue<TicketData> {
    let queue = this.queues.get(pool)
    if (queue === undefined) {
      const { connection, onError } = this.options
      const { Queue } = loadBullMQ()
      queue = new Queue<TicketData>(this.nameOf(pool), {
        connection: connection.get(), prefix: connection.prefix,
      })
      // An `error` event without a listener would end the process.
      queue.on('error', onError)
      this.queues.set(pool, queue)
    }
    return queue
  }

  /** Closes BullMQ's connections, by force after `ms` milliseconds. */
  async close(ms: number): Promise<void> {
    for (const silence of this.silences.values()) silence.close()
    const [workers, queues] = [[...this.workers.values()], [...this.queues.values()]]
    await Promise.all([
      // By force: no run is left, and otherwise BullMQ would wait for the server.
      ...workers.map((worker) => settles(worker.close(true), ms)),
      ...queues.map((queue) => settles(queue.close(), ms)),
    ])
    // BullMQ would try for ever to connect to a server that is away. A client of the application is
    // for the application to disconnect.
    const all = [...workers, ...queues]
    if (all.length === 0 || 'duplicate' in this.options.connection.get()) return
    await Promise.all(all.map((each) => (
      settles(clientOf(each).then((client) => { client?.disconnect?.() }), 100)
    )))
  }

  private workerOf(pool: string): Worker<TicketData> {
    let worker = this.workers.get(pool)
    if (worker === undefined) {
      const { connection, lockMs, onError } = this.options
      const { Worker } = loadBullMQ()
      worker = new Worker<TicketData>(this.nameOf(pool), null, {
        connection: connection.get(), prefix: connection.prefix, autorun: false,
        lockDuration: lockMs, stalledInterval: Math.max(lockMs / 2, 1000),
        maxStalledCount: MAX_STALLED,
      })
      worker.on('error', onError)
      worker.startStalledCheckTimer().catch(onError)
      this.workers.set(pool, worker)
    }
    return worker
  }

  /** Checks the connection if a reply is late. A new connection sends the command again. */
  private async noticed<T>(owner: object, work: Promise<T>): Promise<T> {
    const { timeoutMs } = this.options
    if (!await settles(work, timeoutMs)) {
      let silence = this.silences.get(owner)
      if (silence === undefined) {
        silence = new Silence(() => clientOf(owner), timeoutMs)
        this.silences.set(owner, silence)
      }
      void silence.check()
    }
    return work
  }

  private nameOf(pool: string): string {
    return pool === 'default' ? this.options.name : `${this.options.name}.${pool}`
  }
}

function jobOf([, priority, name, id, run, birth]: Ticket): {
  readonly name: string, readonly data: TicketData, readonly opts: JobsOptions,
} {
  // One job for each run: BullMQ ignores one that is there. It allows no colon and no whole number.
  const jobId = `${id}.${encodeURIComponent(birth)}.${String(run)}`
  return { name, data: { taskId: id }, opts: { ...REMOVED, jobId, ...priority > 0 && { priority } } }
}

interface ClientOptions {
  readonly keyPrefix?: string | undefined
  readonly enableAutoPipelining?: boolean
  readonly maxRetriesPerRequest?: number | null
  readonly redisOptions?: ClientOptions
}

/** Options that BullMQ needs. */
const NEEDED = { keyPrefix: '', enableAutoPipelining: false, maxRetriesPerRequest: null }

export class BullConnection {
  /** BullMQ's prefix of keys. It contains a hash tag. */
  readonly prefix: string
  private own: RedisClient | undefined

  /** @param given - the option of the application */
  constructor(
    private readonly client: RedisClient, private readonly given: ConnectionOptions | undefined,
    namespace: string,
  ) {
    // BullMQ does not take a client with `keyPrefix`.
    const { keyPrefix = '' } = given ? {} : client.options ?? {}
    this.prefix = `${keyPrefix}{${namespace}}`
  }

  get(): ConnectionOptions {
    if (this.given) return this.given
    const { client } = this
    const options: ClientOptions = client.options ?? {}
    if (suits(options) && suits({ maxRetriesPerRequest: null, ...options.redisOptions })) {
      return client
    }
    this.own ??= client.nodes
      ? client.duplicate(...[
        undefined, { ...NEEDED, redisOptions: { ...options.redisOptions, ...NEEDED } },
      ] as never[])
      : client.duplicate(NEEDED as never)
    // Without a listener the client writes each failed connect to the console.
    this.own.on('error', () => undefined)
    return this.own
  }

  close(): void {
    this.own?.disconnect()
  }
}

function suits(
  { keyPrefix = '', enableAutoPipelining = false, maxRetriesPerRequest }: ClientOptions,
): boolean {
  return keyPrefix === '' && !enableAutoPipelining && maxRetriesPerRequest === null
}

interface Owner {
  /** BullMQ 5. */
  readonly client?: Promise<unknown>
  /** BullMQ 6. */
  getBackend?(): { readonly client: Promise<unknown> }
}

/**
 * Returns the client of a queue or worker of BullMQ. Only ioredis has a known way to replace a
 * connection.
 */
export async function clientOf(
  owner: object,
): Promise<Connected & { disconnect?(): void } | undefined> {
  const either: Owner = owner
  const client = await (either.getBackend?.() ?? either).client
  const isIoredis = typeof (client as { defineCommand?: unknown }).defineCommand === 'function'
  return isIoredis ? client as Connected : undefined
}
