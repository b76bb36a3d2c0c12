import type { ConnectionOptions, Job as BullJob, Queue, Worker } from 'bullmq'
import { wrongPeer } from '../../src/runtime/peer.js'
import { settles } from '../../src/runtime/timers.js'
import { StoreUnavailableError } from '../../src/stores/store.js'
import type { Numeric, RedisClient } from './client.js'
import type { Checked, Connection } from './connection.js'
import { loadBullMQ } from './load-bullmq.js'

/** A ready task, as scripts return it. `run` is the number of its next run. */
export type Ticket = readonly [
  pool: string, priority: Numeric, name: string, id: string, run: Numeric, birth: string,
]

/** Data of a job of BullMQ. */
export interface TicketData {
  readonly taskId: string
}

export type TicketJob = BullJob<TicketData>

export interface TicketsOptions {
  readonly connection: ConnectionOptions | undefined
  readonly namespace: string
  /** Name of the queue of the default pool. */
  readonly name: string
  /** Time after which BullMQ takes a job from a process that does not renew its lock. */
  readonly lockMs: number
  readonly calls: Connection
  readonly onError: (error: Error) => void
  /** Called if BullMQ has not responded within the time limit of a call. */
  readonly onLate: (error: Error) => void
  /** Called with the first reply after `onLate`. */
  readonly onReply: () => void
}

/** Maximum time to close a connection of BullMQ, and then to disconnect it, in milliseconds. */
const [CLOSE_MS, DISCONNECT_MS] = [1500, 100]
/** Options of a client that BullMQ needs. */
const NEEDED = {
  keyPrefix: '', enableAutoPipelining: false, maxRetriesPerRequest: null, stringNumbers: false,
}

/**
 * The queues of BullMQ, one for each pool. A job is a ticket, which says that a task may be ready. It
 * may be lost or come twice, because the script that begins the run decides. So no job fails, is
 * retried or is delayed.
 */
export class Tickets {
  private readonly queues = new Map<string, Queue<TicketData>>()
  private readonly workers = new Map<string, Worker<TicketData>>()
  /** A copy of the client of the application, if BullMQ needs other options. */
  private copy: RedisClient | undefined
  /** `true` if BullMQ makes its own clients. */
  private readonly hasOwn: boolean
  private isTimed = false
  private isLate = false
  /** The latest error of a connection of BullMQ. */
  private lastError: Error | undefined

  constructor(private readonly options: TicketsOptions) {
    const { connection } = options
    this.hasOwn = connection !== undefined && !('duplicate' in connection)
  }

  /** Adds jobs one by one, because a transaction would double the cost of each. */
  async add(tickets: readonly Ticket[]): Promise<void> {
    await this.timed(Promise.all(tickets.map(([pool, priority, name, taskId, run, birth]) => {
      // BullMQ ignores a second job of a run. It allows no colon in an id, and no whole number.
      const jobId = `${taskId}.${encodeURIComponent(birth)}.${String(run)}`
      return this.queueOf(pool).add(name, { taskId }, {
        removeOnComplete: true, removeOnFail: true, jobId,
        ...Number(priority) > 0 && { priority: Number(priority) },
      })
    })))
  }

  /** @param done - job of this pool that is completed in the same command */
  async next(pool: string, token: string, done?: TicketJob): Promise<TicketJob | undefined> {
    const worker = this.workerOf(pool)
    if (done !== undefined) {
      const next = await this.timed(this.complete(done, token, true))
      if (Array.isArray(next)) {
        const [data, id] = next as [Parameters<typeof BullJob.fromJSON>[1] | null, string?]
        return data ? loadBullMQ().Job.fromJSON<TicketData>(worker, data, id) : undefined
      }
    }
    return this.timed(worker.getNextJob(token, { block: false }))
  }

  /** BullMQ may have given the job to another process, which does no harm. */
  complete(job: TicketJob, token: string, isNextWanted = false): Promise<unknown> {
    return job.moveToCompleted(null, token, isNextWanted).catch(() => undefined)
  }

  /** Renews locks, so that boards show the jobs as active. */
  renew(jobs: Iterable<TicketJob>, token: string): void {
    const { lockMs } = this.options
    for (const job of jobs) job.extendLock(token, lockMs).catch(() => undefined)
  }

  queueOf(pool: string): Queue<TicketData> {
    let queue = this.queues.get(pool)
    if (queue === undefined) {
      queue = new (usableBullMQ().Queue)<TicketData>(this.nameOf(pool), this.bullOptions())
      this.attend(queue)
      this.queues.set(pool, queue)
    }
    return queue
  }

  /** Closes BullMQ's connections, by force if they do not close in time. */
  async close(): Promise<void> {
    await Promise.all([
      // By force: no run is left, and otherwise BullMQ would wait for the server.
      ...[...this.workers.values()].map((worker) => settles(worker.close(true), CLOSE_MS)),
      ...[...this.queues.values()].map(async (queue) => {
        await settles(queue.close(), CLOSE_MS)
        // Otherwise BullMQ would reconnect for ever.
        if (this.hasOwn) await settles(queue.disconnect(), DISCONNECT_MS)
      }),
    ])
    this.copy?.disconnect()
  }

  private workerOf(pool: string): Worker<TicketData> {
    let worker = this.workers.get(pool)
    if (worker === undefined) {
      const { lockMs, onError } = this.options
      worker = new (usableBullMQ().Worker)<TicketData>(this.nameOf(pool), null, {
        ...this.bullOptions(), autorun: false, lockDuration: lockMs,
        stalledInterval: Math.max(lockMs / 2, 1000), maxStalledCount: 1_000_000,
      })
      this.attend(worker)
      worker.startStalledCheckTimer().catch(onError)
      this.workers.set(pool, worker)
    }
    return worker
  }

  private attend(owner: Pick<Queue, 'getBackend'> & Pick<RedisClient, 'on'>): void {
    // An `error` event without a listener would end the process.
    owner.on('error', ((error: Error) => {
      this.lastError = error
      this.options.onError(error)
    }) as never)
    if (!this.hasOwn) return
    // In BullMQ 5 the owner has the client itself.
    const { getBackend }: Partial<typeof owner> = owner
    const { client } = getBackend?.call(owner) ?? owner as unknown as { client: Promise<unknown> }
    client.then((client: unknown) => {
      this.options.calls.silence.clients.add(client as Checked)
    }, () => undefined)
  }

  private bullOptions(): { readonly connection: ConnectionOptions, readonly prefix: string } {
    const { calls: { client, silence }, connection, namespace } = this.options
    const options: ClientOptions = client.options ?? {}
    // BullMQ does not take a client with `keyPrefix`. Its prefix of keys contains a hash tag.
    const {
      keyPrefix = '', enableAutoPipelining = false, maxRetriesPerRequest, stringNumbers = false,
    } = options
    const isSuitable = !client.nodes && !keyPrefix && !enableAutoPipelining && !stringNumbers
      && maxRetriesPerRequest === null
    const used = connection ?? (isSuitable ? client : this.copy ??= copyOf(client, options))
    if (!this.hasOwn) silence.clients.add(used as Checked)
    return { connection: used, prefix: `${connection ? '' : keyPrefix}{${namespace}}` }
  }

  /** Checks the connections if the reply is late. Times one call at a time. */
  private timed<T>(work: Promise<T>): Promise<T> {
    const { calls, onLate } = this.options
    work.catch((error: unknown) => { calls.leaveReplica(error) })
    if (this.isLate) this.awaitReply(work)
    if (this.isTimed) return work
    this.isTimed = true
    void settles(work, calls.timeoutMs).then((isSettled) => {
      this.isTimed = false
      if (isSettled) return
      calls.silence.check()
      onLate(new StoreUnavailableError(
        `BullMQ has not responded within ${String(calls.timeoutMs)} ms`, { cause: this.lastError },
      ))
      this.isLate = true
      this.awaitReply(work)
    })
    return work
  }

  private awaitReply(work: Promise<unknown>): void {
    work.then(() => {
      if (this.isLate) this.options.onReply()
      this.isLate = false
    }, () => undefined)
  }

  private nameOf(pool: string): string {
    return pool === 'default' ? this.options.name : `${this.options.name}.${pool}`
  }
}

function usableBullMQ(): ReturnType<typeof loadBullMQ> {
  const found = loadBullMQ()
  if ('startStalledCheckTimer' in found.Worker.prototype) return found
  throw wrongPeer('The task engine of longhaul/redis', 'bullmq', '5 or 6')
}

interface ClientOptions {
  readonly keyPrefix?: string | undefined
  readonly enableAutoPipelining?: boolean
  readonly maxRetriesPerRequest?: number | null
  readonly stringNumbers?: boolean
  readonly redisOptions?: object
}

function copyOf(client: RedisClient, { redisOptions }: ClientOptions): RedisClient {
  const copy = client.nodes
    ? client.duplicate(...[undefined, { ...NEEDED, redisOptions: { ...redisOptions, ...NEEDED } }] as never[])
    : client.duplicate(NEEDED as never)
  // Without a listener the client writes each failed connect to the console.
  copy.on('error', () => undefined)
  return copy
}
