import type { PostgresConnection, PostgresQueueBackend } from 'bullmq'
import { loadBullMQ } from '../../bullmq/load-bullmq.js'
import { Completions, type Completion } from './completions.js'
import type { JobDatabase } from './job-database.js'

type Base = PostgresQueueBackend
type Options = ConstructorParameters<typeof PostgresQueueBackend>[2] & {
  readonly lockDuration?: number
}
type Completed = Awaited<ReturnType<Base['moveToCompleted']>>

/** Next job in BullMQ's form: data, id, time of a rate limit, time of the next delayed job. */
type NextJob = [data: unknown, id: string, limitMs: number, delayedUntil: number]

/** The method of BullMQ that converts a row of a job. Its types hide it. */
interface Private {
  buildNextJobResult(rows: readonly Completion[], limit: null, now: number): Promise<NextJob>
}

/** Opens BullMQ's backend for one queue, on the pool of the host. */
export function openBackend(
  connection: PostgresConnection, queue: string, options: Options, database: JobDatabase,
): PostgresQueueBackend {
  backendClass ??= defineBackend()
  return new backendClass(connection, queue, options, database)
}

type BackendClass = new (
  connection: PostgresConnection, queue: string, options: Options, database: JobDatabase,
) => PostgresQueueBackend

let backendClass: BackendClass | undefined

/** Defines the class at the first use, because its base class is BullMQ's. */
function defineBackend(): BackendClass {
  const { PostgresQueueBackend } = loadBullMQ()
  return class HostQueueBackend extends PostgresQueueBackend {
    private readonly completions: Completions

    constructor(
      connection: PostgresConnection, queue: string, options: Options, database: JobDatabase,
    ) {
      super(connection, queue, options)
      this.completions = new Completions(database, queue, options.lockDuration ?? 30_000)
    }

    /**
     * BullMQ's own backend keeps the outcome of its start. If the server was away at that time, no
     * job could ever be completed.
     */
    override waitUntilReady(): Promise<void> {
      return this.connection.waitUntilReady()
    }

    /** Completes a job together with the others of this turn of the event loop. */
    override async moveToCompleted<T, R, N extends string>(
      ...call: Parameters<typeof PostgresQueueBackend.prototype.moveToCompleted<T, R, N>>
    ): Promise<Completed> {
      const [{ id = '' }, , isRemoved, token, wantsNext] = call
      const completion = isRemoved === true
        ? await this.completions.complete({ id, token, wantsNext }) : undefined
      if (!completion?.is_removed) return super.moveToCompleted(...call)
      const result = wantsNext ? await this.nextOf(completion, token) : undefined
      return { result: result as Completed['result'], finishedOn: Date.now() }
    }

    private async nextOf(completion: Completion, token: string): Promise<NextJob> {
      // The job is completed, so a failure must not be that of its completion. The worker asks again.
      if (completion.is_special) return this.moveToActive(token).catch(() => NONE) as Promise<NextJob>
      if (completion.id !== null) {
        return (this as unknown as Private).buildNextJobResult([completion], null, Date.now())
      }
      const { next_in_ms: nextMs } = completion
      return nextMs === null ? NONE : [null, '', 0, Date.now() + nextMs]
    }
  }
}

const NONE: NextJob = [null, '', 0, 0]
