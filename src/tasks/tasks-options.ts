import type { Queue } from '../queues/queue.js'
import type { Store } from '../stores/store.js'
import type { TaskIndex } from '../stores/task-index.js'
import type { Callbacks } from './record/callbacks.js'
import type { Definitions } from './definition/task-types.js'

/** Times are in milliseconds, sizes in bytes. */
export interface TasksOptions<D extends Definitions = Definitions> {
  /** Keeps the records, such as `store` of `memory()` or `redis()`. */
  readonly store: Store
  /** Runs the tasks: `queue` of `memory()`, or a `BullMQQueue`. */
  readonly queue: Queue
  /**
   * Lists unfinished tasks, so that worker processes find those whose job was lost. `memory()` and
   * `redis()` bring one. Default: none, and a task whose job was lost reads as unfinished until
   * `pendingMs` is over.
   */
  readonly index?: TaskIndex
  /** The kinds of work. Only these can be submitted. */
  readonly definitions: D
  /** Whether this process runs tasks; `false` for one that only takes them in. Default `true`. */
  readonly worker?: boolean
  /**
   * Runs at once in this process: those of queued tasks and those of direct answers together.
   * Default 10.
   */
  readonly concurrency?: number
  /**
   * Where the work of a direct answer (a request without `Prefer: respond-async`) runs. `here`: in
   * this process, and it is not on record. `queue`: it becomes a task, and the request waits for
   * its end; any worker may run it. A request with an Idempotency-Key, and work with `attempts` or
   * `maxPerOwner`, becomes a task in either case. Default: `here`, but `queue` with `worker:
   * false`.
   */
  readonly direct?: 'here' | 'queue'
  /** How long a finished task can be asked for. Default 24 hours. */
  readonly retentionMs?: number
  /** How long an unfinished task is kept at the most. Default 7 days. */
  readonly pendingMs?: number
  /** Maximum size of an input, in bytes of JSON. Default 1 MiB. */
  readonly maxInputBytes?: number
  /** Default 1 MiB; a larger result fails its task (`result_too_large`). */
  readonly maxResultBytes?: number
  /**
   * Requests that wait at once in this process: long polls, `respond-async, wait=N` and event
   * streams. Above it, the first two are answered at once, and an event stream is a 503
   * `service_unavailable`. Default 1000.
   */
  readonly maxWaiters?: number
  /**
   * How many of these places one owner may have. Clients without an owner are counted by the
   * network of their connection, so behind a proxy they all count as one. Above it, an event stream
   * is a 429 `too_many_requests`. Default: a tenth of `maxWaiters`, 10 at least.
   */
  readonly maxWaitersPerOwner?: number
  /**
   * Shared store, queue of one process: how long that may be silent before its tasks are lost
   * (`task_interrupted`). Default 15 000.
   */
  readonly leaseMs?: number
  /**
   * How often each unfinished task is checked to have a job; one that was lost is found within two
   * such times. Default 30 000.
   */
  readonly sweepMs?: number
  /**
   * Queue that spans processes: how long a task is handed back that no worker can run, because it
   * does not know the definition or its schema refuses the input. Then the task fails
   * (`unknown_task`, `invalid_input`). Default 1 hour, enough for a rolling deploy.
   */
  readonly unknownTaskMs?: number
  /** Progress is written no more often than this. Default 200. */
  readonly progressIntervalMs?: number
  /**
   * Tells callback URLs of tasks that have ended: `callbacks({ secrets })` of `longhaul/callbacks`.
   * Default: none, and no task may have one.
   */
  readonly callbacks?: Callbacks
  /**
   * Is told of every failure that clients see masked, whole and with its causes, and of which
   * attempt of which task it was. Default: a process warning that says the same.
   */
  readonly onError?: (error: unknown, at: { taskId: string; name: string; attempt: number }) => void
}
