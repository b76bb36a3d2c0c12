import type { Queue } from '../queues/queue.js'
import type { Blobs } from '../stores/blobs.js'
import type { Store } from '../stores/store.js'
import type { TaskIndex } from '../stores/task-index.js'
import type { Callbacks } from './record/callbacks.js'
import type { PoolOptions } from './run/pools.js'
import type { Definitions } from './definition/task-types.js'

/** Options of `createTasks`. */
export interface TasksOptions<D extends Definitions = Definitions> {
  /** Keeps the records, such as `store` of `memory()` or `redis()`. */
  readonly store: Store
  /** Runs the tasks: `queue` of `memory()`, or a `BullMQQueue`. */
  readonly queue: Queue
  /**
   * Lists tasks, for `list`, and finds those whose job was lost. `memory()`, `redis()` and
   * `postgres()` include one. Default: none. Then `list` fails, and a task whose job was lost stays
   * unfinished until `pendingMs` is over.
   */
  readonly index?: TaskIndex
  /**
   * Keeps the files that runs write. `memory()` and `postgres()` include blobs; with `redis()` pass
   * `new FolderBlobs(folder, { shared: true })` of `longhaul/files`. Required if a definition has
   * `files: true`. Default: none.
   */
  readonly blobs?: Blobs
  /** The kinds of work. Only these can be submitted. */
  readonly definitions: D
  /** If `false`, this process accepts tasks and does not run them. Default `true`. */
  readonly worker?: boolean
  /**
   * Maximum number of concurrent runs of the default pool in this process, of queued tasks and
   * direct answers together. Default 10.
   */
  readonly concurrency?: number
  /**
   * Further pools of tasks, each with a concurrency of its own: `{ heavy: { concurrency: 2 } }`.
   * Definitions choose one by `pool`. Pass all pools in all processes. The tasks of a definition
   * without `pool` are in the pool `default`, whose concurrency is the option `concurrency`. A task
   * stays in the pool that it was submitted to. Remove or rename a pool only when `tasks.pools()`
   * says that it is empty. Default: none.
   */
  readonly pools?: Readonly<Record<string, PoolOptions>>
  /**
   * Pools whose tasks this process runs, such as `['heavy']`. Requires a queue that spans processes.
   * Default: all.
   */
  readonly work?: readonly string[]
  /**
   * Place of the work of a direct answer (a request without `Prefer: respond-async`). `here`: this
   * process, without a record. `queue`: the work becomes a task that any worker may run, and the
   * request waits for its end. A request with an Idempotency-Key, and work with `attempts` or
   * `maxPerOwner`, becomes a task in either case. Default: `here`, but `queue` with `worker:
   * false`.
   */
  readonly direct?: 'here' | 'queue'
  /** Time for which a finished task is kept, in milliseconds. Default 24 hours. */
  readonly retentionMs?: number
  /** Maximum time for which an unfinished task is kept, in milliseconds. Default 7 days. */
  readonly pendingMs?: number
  /** Maximum size of an input, in bytes of JSON. Default 1 MiB. */
  readonly maxInputBytes?: number
  /**
   * Maximum size of a result, in bytes of JSON. A larger one fails its task (`result_too_large`).
   * Default 1 MiB.
   */
  readonly maxResultBytes?: number
  /**
   * Maximum size of all files of one run, in bytes. Beyond it the task fails
   * (`result_files_too_large`). `maxFileBytes` of a definition comes first. Default 10 GiB.
   */
  readonly maxFileBytes?: number
  /**
   * Maximum number of requests that wait in this process: long polls, `respond-async, wait=N` and
   * event streams. Beyond it, the first two are answered at once, and an event stream is a 503
   * `service_unavailable`. Default 1000.
   */
  readonly maxWaiters?: number
  /**
   * Maximum number of these requests for one owner. A client without an owner counts by its
   * principal, or by the network of its connection, so behind a proxy all anonymous clients count
   * as one. Beyond it, an event stream is a 429 `too_many_requests`. Default: a tenth of `maxWaiters`, 10 at least.
   */
  readonly maxWaitersPerOwner?: number
  /**
   * Lease of this process on its tasks, in milliseconds, if the store is shared and the queue is
   * not. If the process does not renew it in time, its tasks fail (`task_interrupted`). Default
   * 15 000.
   */
  readonly leaseMs?: number
  /**
   * Interval of the sweeps that check that each unfinished task has a job, in milliseconds. A lost
   * job is found within two intervals; with tens of thousands of unfinished tasks for each worker,
   * within up to 16. A task that was submitted in a `transaction` waits for some seconds at most,
   * if its process has died. Default 30 000.
   */
  readonly sweepMs?: number
  /**
   * Maximum time that a task waits for a worker that can run it, in milliseconds, if the queue
   * spans processes. A worker returns a job if it does not know the definition, or if its schema
   * refuses the input. After that time the task fails (`unknown_task`, `invalid_input`). Default 1
   * hour, enough for a rolling deploy.
   */
  readonly unknownTaskMs?: number
  /** Minimum time between two writes of progress, in milliseconds. Default 200. */
  readonly progressIntervalMs?: number
  /**
   * Sends callbacks when tasks have ended: `callbacks({ secrets })` of `longhaul/callbacks`.
   * Default: none, and no task may have a callback URL.
   */
  readonly callbacks?: Callbacks
  /**
   * Receives every error that is masked to clients, with its causes, and the attempt and the task
   * that it belongs to. Default: a process warning with the same facts.
   */
  readonly onError?: (error: unknown, at: { taskId: string; name: string; attempt: number }) => void
}
