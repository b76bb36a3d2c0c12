import type { RunLimits, StartsPer, TaskEngine } from '../../engine/engine.js'
import {
  bytes, duration, flag, func, hasMethod, oneOf, readOptions, value, whole, type OptionTable,
} from '../../runtime/options.js'
import type { Blobs } from '../../stores/blobs.js'
import type { Store } from '../../stores/store.js'
import { reportingTo } from '../record/diagnostics.js'
import type { Callbacks, CoreSettings } from './task-core.js'
import { DEFAULT_POOL, POOL_NAME, type AnyTaskDefinition, type Definitions } from '../definition/define.js'
import type { Tracing } from '../definition/tracing.js'

/** Options of `createTasks`. */
export interface TasksOptions<D extends Definitions = Definitions> {
  /** Stores the tasks and assigns them to workers. From `memory()`, `redis()` or `postgres()`. */
  readonly engine: TaskEngine
  /** Keeps counters, uploads and responses of idempotency keys. Made by the same functions. */
  readonly store: Store
  /**
   * Keeps the files that runs write. Required for a definition with `files: true`. Default: none.
   *
   * All engines but `redis()` come with blobs. There, pass `new FolderBlobs(folder, { shared: true
   * })` of `longhaul/files`, or `S3Blobs`.
   */
  readonly blobs?: Blobs
  /** The kinds of work. Only these can be submitted. */
  readonly definitions: D
  /**
   * Pools that this process runs tasks of, such as `['heavy']`, with an engine that spans processes.
   * `false`: it accepts tasks and runs none. Default `true`: all pools.
   */
  readonly worker?: boolean | readonly string[]
  /** Maximum number of concurrent runs of the default pool in this process. Default 10. */
  readonly concurrency?: number
  /**
   * Pools beside `default`, each with its concurrency and limits: `{ heavy: { concurrency: 2 } }`.
   * `default` may have limits. Default: none.
   *
   * Pass all pools in all processes.
   *
   * Definitions choose one by `pool`. A task stays in the pool that it was submitted to, so remove
   * a pool only when `tasks.pools()` says that it is empty.
   */
  readonly pools?: Readonly<Record<string, PoolOptions>>
  /**
   * Place of the work of a synchronous request (one without `Prefer: respond-async`). `request`: in
   * this process, without a task. `task`: in a task that any worker may run. Default: `request`,
   * but `task` with `worker: false`.
   *
   * A request with an Idempotency-Key, and work with `attempts`, `maxPerOwner` or limits of running
   * work, becomes a task in either case.
   */
  readonly direct?: 'request' | 'task'
  /** Time for which a finished task is kept, in milliseconds. Default 24 hours. */
  readonly retentionMs?: number
  /** Time for which a failed task is kept, in milliseconds. Default: `retentionMs`. */
  readonly failedRetentionMs?: number
  /** Maximum time for which an unfinished task is kept, in milliseconds. Default 7 days. */
  readonly pendingMs?: number
  /** Maximum size of an input, in bytes of JSON. Default 1 MiB. */
  readonly maxInputBytes?: number
  /**
   * Maximum size of a result as JSON, in bytes. Default 1 MiB.
   *
   * Beyond it the task fails (`result_too_large`).
   */
  readonly maxResultBytes?: number
  /**
   * Maximum size of all files of one run, in bytes. Default 10 GiB.
   *
   * Beyond it, the task fails (`result_files_too_large`). `maxFileBytes` of a definition comes
   * first.
   */
  readonly maxFileBytes?: number
  /**
   * Maximum size of the blobs of finished tasks of one owner, in bytes. Default: a quarter of
   * `maxBytes` of the blobs, else 10 GiB.
   *
   * Beyond it, the owner loses the oldest of these tasks, but not the newest.
   *
   * Result files, reports, and bodies of tasks that may be retried count.
   */
  readonly maxFileBytesPerOwner?: number
  /**
   * Maximum number of requests that wait in this process: long polls, `respond-async, wait=N` and
   * event streams. Default 1000.
   *
   * Beyond it, an event stream gets a 503 `service_unavailable`, and the others get their responses
   * at once.
   */
  readonly maxWaiters?: number
  /**
   * Maximum number of these requests for one owner. Default: a tenth of `maxWaiters`, 10 at least.
   *
   * Beyond it, an event stream gets a 429 `too_many_requests`.
   *
   * A client without an owner counts by its principal, or by the network of its connection.
   */
  readonly maxWaitersPerOwner?: number
  /**
   * Number of runs in a row that may end with their process, without a new checkpoint, before the
   * task fails with `task_lost`. Default 3.
   */
  readonly maxCrashes?: number
  /**
   * Maximum time that a task waits for a worker that can run it, in milliseconds, if the engine is
   * durable. Default 1 hour.
   *
   * Then the task fails (`unknown_task`, `invalid_input`).
   *
   * A worker gives a task back if it does not know the definition, or if its schema rejects the
   * input.
   */
  readonly unknownTaskMs?: number
  /** Minimum time between two writes of progress, in milliseconds. Default 200. */
  readonly progressIntervalMs?: number
  /**
   * Stores the real error of each failed run with its task, and a copy of the input, for operators
   * and your own code: `task.failure`. Messages and inputs may hold secrets or personal data.
   * Default `true`.
   */
  readonly storeErrors?: boolean
  /** Sends callbacks: `callbacks({ secrets })` of `longhaul/callbacks`. Default: no callbacks. */
  readonly callbacks?: Callbacks
  /** Wraps the steps of tasks in spans: `taskTracing()` of `longhaul/opentelemetry`. Default: none. */
  readonly tracing?: Tracing
  /**
   * Receives errors that are masked to clients, with task and attempt. Default: a process warning.
   *
   * Also receives one error each time that the worker of this process becomes unable to take tasks;
   * its `taskId` is `worker:engine`.
   */
  readonly onError?: (error: unknown, at: { taskId: string; name: string; attempt: number }) => void
}

/** Settings of one pool. */
export interface PoolOptions {
  /** Maximum number of concurrent runs of this pool in this process. Default 10. */
  readonly concurrency?: number
  /**
   * Maximum number of concurrent runs of this pool in all processes, such as the connections that a
   * database behind the work has to spare. Default: no limit.
   */
  readonly maxRunning?: number
  /**
   * Maximum number of concurrent runs of one owner in this pool, in all processes. Its other tasks
   * wait, and tasks of other owners begin. Default: no limit.
   */
  readonly maxRunningPerOwner?: number
  /**
   * Maximum number of runs of this pool that begin within any `ms` milliseconds, in all processes, such as
   * the rate of a paid API: `{ count: 100, ms: 60_000 }`. A further attempt counts too. Default: no limit.
   */
  readonly startsPer?: StartsPer
}

/** Settings of the default pool: its `concurrency` is an option of `createTasks`. */
type PoolLimits = Omit<PoolOptions, 'concurrency'>

const DAY_MS = 86_400_000
const isCallbacks = hasMethod('open')

const SPREAD = { hint: 'If it is what memory() returned, write createTasks({ ...memory(), definitions })' }

const OPTIONS = {
  engine: value('a task engine', hasMethod('work'), SPREAD), store: value('a store', hasMethod('increment'), SPREAD),
  blobs: value('the blobs of memory() or postgres(), or those of longhaul/files', hasMethod('put')),
  definitions: value(), worker: value(), pools: value(),
  direct: oneOf(['request', 'task']),
  concurrency: whole({ min: 1, default: 10 }),
  retentionMs: duration({ min: 1000, default: DAY_MS }), failedRetentionMs: duration({ min: 1000 }),
  pendingMs: duration({ min: 1000, default: 7 * DAY_MS }),
  maxInputBytes: bytes({ default: 2 ** 20 }), maxResultBytes: bytes({ default: 2 ** 20 }),
  maxFileBytes: bytes({ default: 10 * 2 ** 30 }), maxFileBytesPerOwner: bytes(),
  maxWaiters: whole({ infinity: true, default: 1000 }), maxWaitersPerOwner: whole({ infinity: true }),
  maxCrashes: whole({ min: 1, default: 3 }),
  unknownTaskMs: duration({ default: 3_600_000 }), progressIntervalMs: duration({ default: 200 }),
  storeErrors: flag({ default: true }),
  callbacks: value('what callbacks() of longhaul/callbacks returns', isCallbacks, {
    hint: 'Write createTasks({ callbacks: callbacks({ secrets, … }), … })',
  }),
  tracing: value('what taskTracing() of longhaul/opentelemetry returns', hasMethod('accept')),
  onError: func(),
} satisfies OptionTable<TasksOptions>

const POOL_LIMITS = {
  maxRunning: whole({ min: 1 }), maxRunningPerOwner: whole({ min: 1 }),
  startsPer: value('an object', (given) => typeof given === 'object' && given !== null),
} satisfies OptionTable<PoolLimits>

const POOL = { concurrency: whole({ min: 1 }), ...POOL_LIMITS } satisfies OptionTable<PoolOptions>

const STARTS_PER = {
  count: whole({ min: 1, max: 10_000, required: true }),
  ms: whole({ min: 1, max: DAY_MS, required: true }),
} satisfies OptionTable<StartsPer>

const fault = (what: string) => new TypeError(`createTasks: ${what}`)

/** @throws {TypeError} An option is not valid, by itself or beside another one. */
export function readTasksOptions(options: TasksOptions): CoreSettings {
  const read = readOptions('createTasks', options, OPTIONS)
  const { engine, store, blobs, definitions, worker = true } = read
  if (!engine || !store) {
    const missing = engine ? 'store is' : store ? 'engine is' : 'engine and store are'
    throw fault(`${missing} missing; for one process: createTasks({ ...memory(), definitions })`)
  }
  if (!definitions?.every?.(isDefinition)) {
    const given: unknown = definitions
    const isEndpoint = Array.isArray(given)
      && given.some((each: { task?: AnyTaskDefinition } | undefined) => isDefinition(each?.task))
    const advice = isEndpoint ? '; of a background endpoint pass its property task' : ''
    throw fault(`definitions must be a list of what defineTask returned${advice}`)
  }
  const names = definitions.map(({ name }) => name)
  const twice = names.find((name, at) => names.indexOf(name) < at)
  if (twice !== undefined) throw fault(`two definitions are named ${twice}`)
  for (const { name, onFailed } of definitions) {
    if (onFailed === undefined || definitions.some((each) => each === onFailed)) continue
    throw fault(`${name} has onFailed: ${onFailed.name}, which is not among the definitions; add it there`)
  }
  const writer = definitions.find(({ files }) => files === true)
  if (writer && !blobs) {
    throw fault(`${writer.name} writes files, so blobs are required; pass those of memory() or postgres(), `
      + 'or new FolderBlobs(folder) of longhaul/files')
  }
  if (engine.shared) checkShared(read, writer)
  const pools = toPools(read)
  return {
    ...read, engine, store, blobs, pools, limits: toLimits(read),
    definitions: new Map(definitions.map((definition) => [definition.name, definition])),
    work: worker === true ? [...pools.keys()] : worker || [],
    maxFileBytesPerOwner: read.maxFileBytesPerOwner ?? (blobs?.maxBytes ?? 40 * 2 ** 30) / 4,
    onError: reportingTo(read.onError),
  }
}

function checkShared(
  { store, blobs, definitions }: TasksOptions, writer: AnyTaskDefinition | undefined,
): void {
  if (!store.shared) {
    throw fault('several processes share this engine, but the store is for one process; '
      + 'pass that of redis() or postgres()')
  }
  const local = definitions.find(({ shared }) => shared === false)
  if (local) {
    throw fault(`several processes share this engine, but ${local.name} has blobs for one process; `
      + 'give it blobs that all processes see')
  }
  if (writer && !blobs?.shared) {
    throw fault(`${writer.name} writes files and the engine is shared between processes, but the blobs are not; `
      + 'pass shared blobs, such as new FolderBlobs(folder, { shared: true })')
  }
}

/** True for an object that `defineTask` made, which has a time-out. */
function isDefinition(each: AnyTaskDefinition | undefined): boolean {
  return each?.timeoutMs !== undefined
}

function toLimits({ pools = {}, definitions }: TasksOptions): ReadonlyMap<string, RunLimits> {
  const limits = new Map<string, RunLimits>()
  for (const [pool, options] of Object.entries(pools)) {
    const { maxRunning, maxRunningPerOwner: maxPerCaller, startsPer } = options
    if (maxRunning === undefined && maxPerCaller === undefined && startsPer === undefined) continue
    limits.set(pool, {
      maxRunning, maxPerCaller,
      startsPer: startsPer && readOptions(`createTasks: pools.${pool}.startsPer`, startsPer, STARTS_PER),
    })
  }
  for (const { name, pool, maxRunningPerOwner } of definitions) {
    if (maxRunningPerOwner === undefined) continue
    const { maxPerCallerOf = [], ...others } = limits.get(pool) ?? {}
    limits.set(pool, { ...others, maxPerCallerOf: new Map([...maxPerCallerOf, [name, maxRunningPerOwner]]) })
  }
  return limits
}

function toPools(
  { engine, definitions, worker, concurrency = 10, pools: more = {} }: TasksOptions,
): ReadonlyMap<string, number> {
  const pools = new Map([[DEFAULT_POOL, concurrency]])
  for (const [name, options] of Object.entries(more)) {
    if (!POOL_NAME.accepts(name)) throw fault(`a name in pools must be ${POOL_NAME.expects}`)
    const where = `createTasks: pools.${name}`
    if (name === DEFAULT_POOL) {
      if (options?.concurrency !== undefined) {
        throw fault('pools.default has no concurrency; it is the option concurrency of createTasks')
      }
      const limits: PoolLimits = options
      readOptions(where, limits, POOL_LIMITS)
    } else pools.set(name, readOptions(where, options, POOL).concurrency ?? 10)
  }
  for (const { name, pool } of definitions) {
    if (pools.has(pool)) continue
    throw fault(`the definition ${name} names the pool ${pool}, which is not in pools; add it there`)
  }
  if (worker === undefined || typeof worker === 'boolean') return pools
  const isList: boolean = Array.isArray(worker)
  if (!isList || worker.length === 0) {
    throw fault('worker must be true, false or a list of pools; for no pool, pass worker: false')
  }
  const unknown = worker.find((name) => !pools.has(name))
  if (unknown !== undefined) {
    throw fault(`worker names ${unknown}, which is not in pools (${[...pools.keys()].join(', ')})`)
  }
  if (!engine.shared) {
    throw fault('worker is a list of pools, so other processes must run the other pools, and this engine is for one process')
  }
  return pools
}
