import type { AnyTaskDefinition, Definitions, InputOf } from './definition/define.js'
import type { ListedStatus } from '../engine/engine.js'
import { checkOwnerId, checkTenantOwner } from '../http/requester.js'
import { checkNames } from '../runtime/option-names.js'
import { duration, readOptions } from '../runtime/options.js'
import type { SubmitOptions } from './core/accept-task.js'
import { TaskCore, type PoolCounts, type TasksHealth } from './core/task-core.js'
import {
  ServedTasks, type OwnedTasks, type SubmitArguments, type TaskHandle,
} from './owned-tasks.js'
import type { ListOptions, TaskPage } from './lists.js'
import { readTasksOptions, type TasksOptions } from './core/tasks-options.js'
import { startWorker } from './core/worker.js'
import { noteClosed, noteOpened } from '../runtime/stopping.js'

/**
 * Submits tasks and shows them. Made by `createTasks`. `D` are the registered definitions. These
 * calls see the tasks of all owners. On behalf of a client, use `ownedBy`.
 */
export interface Tasks<D extends Definitions = Definitions> extends OwnedTasks<D> {
  /**
   * Returns the definition of this name, to choose the kind of work by a property of a body. Check
   * the name first: all definitions are found, even those that are not for clients.
   *
   * @example
   * const definition = tasks.definition('report')
   */
  definition(name: string): D[number] | undefined
  /**
   * Validates the input, then accepts the task. Resolves when the task is stored and due. With
   * `transaction`, resolves when it is written in that transaction.
   *
   * @example
   * const task = await tasks.submit(report, { year: 2025 }, { owner: 'ann' })
   * const end = await task.wait({ timeoutMs: 5000 })
   * if (end?.status === 'completed') console.log(end.result.message)
   *
   * @example
   * const client = await pool.connect()
   * await client.query('BEGIN')
   * const task = await tasks.submit(report, { year: 2025 }, { transaction: client })
   * await client.query('INSERT INTO reports (year, task) VALUES ($1, $2)', [2025, task.taskId])
   * await client.query('COMMIT')
   * client.release()
   *
   * @throws {HttpError} 400 `invalid_input`, `invalid_callback_url`, `callback_url_forbidden`, what
   * `check` throws, 413 `body_too_large`, 429 `too_many_tasks`, 503 `queue_full`, `shutting_down`
   * @throws {StoreUnavailableError} The engine does not respond.
   * @throws {TypeError} The definition is not registered, or an option is unknown. `transaction` is
   * not open, or belongs to another database than the engine.
   */
  submit<T extends D[number]>(
    definition: T, input: InputOf<T>, ...options: SubmitArguments<T, SubmitOptions>
  ): Promise<TaskHandle<T>>
  /**
   * Returns the tasks of one owner, for calls on a client's behalf; for `undefined`, an anonymous
   * client, the tasks without an owner.
   *
   * @example
   * const mine = tasks.ownedBy('ann')
   * const task = await mine.get('a-task-id')
   *
   * @example
   * const { items } = await tasks.ownedBy('ann', { tenant: 'acme' }).list()
   *
   * @throws {TypeError} `owner` is neither `undefined` nor a non-empty string, or an option is not valid.
   */
  ownedBy(owner: string | undefined, options?: {
    /** Id of the owner's tenant. Default: none. An owner in a tenant is another one than outside. */
    readonly tenant?: string | undefined
  }): OwnedTasks<D>
  /**
   * Returns a page of the tasks of all owners, or of one tenant. See `OwnedTasks.list`.
   *
   * @example
   * const { items } = await tasks.list({ tenant: 'acme', status: 'failed' })
   */
  list<T extends D[number] = D[number], S extends ListedStatus = ListedStatus>(
    options?: ListOptions<T, S> & {
      /** Only tasks of this tenant, those without an owner too. Default: all. */
      readonly tenant?: string | undefined
    },
  ): Promise<TaskPage<T, S>>
  /**
   * Reports whether a task could be accepted now, and the load of this process. A PostgreSQL that is
   * read-only or full is not `ok`. Never rejects.
   *
   * @example
   * const { ok } = await tasks.health()
   */
  health(): Promise<TasksHealth>
  /**
   * Counts the work of each pool in all processes, for an operator. A pool that no process works
   * for has a growing `oldestWaitingMs`.
   *
   * On PostgreSQL the cost grows with the number of waiting tasks. Rejects if the engine does not
   * respond.
   *
   * @example
   * for (const { pool, waiting, oldestWaitingMs } of await tasks.pools()) {
   *   console.log(pool, waiting, oldestWaitingMs)
   * }
   */
  pools(): Promise<PoolCounts[]>
  /**
   * Pauses a pool in all processes: no task of it begins, and synchronous requests for its work
   * wait. On a durable engine, the pause survives a restart. Active runs continue. Tasks are
   * accepted as before.
   *
   * @example
   * await tasks.pause('heavy')
   *
   * @throws {TypeError} There is no pool of this name.
   * @throws {StoreUnavailableError} The engine does not respond.
   */
  pause(pool: string): Promise<void>
  /**
   * Ends the pause of a pool. Its tasks begin in their order. Throws as `pause` does.
   *
   * @example
   * await tasks.resume('heavy')
   */
  resume(pool: string): Promise<void>
  /**
   * Accepts no new tasks, responds to waiting requests, gives active runs `drainMs` (default 10
   * seconds) to finish, then stops them. A synchronous response whose run is stopped is a 503
   * `shutting_down`. Closes the engine too. Once all tasks of the process are closed, each response that a
   * binding for Node sends says `Connection: close`, so that `server.close` ends. The store, the blobs and your clients stay open: close
   * them afterwards.
   *
   * @example
   * await tasks.close({ drainMs: 30_000 })
   */
  close(options?: {
    /** Time that active runs get to finish. @default 10 000 */
    readonly drainMs?: number
  }): Promise<void>
}

/**
 * Creates tasks over a task engine and a store. Call it outside of any request: runs, callbacks and
 * `onError` are called in the async context (`AsyncLocalStorage`) of this call.
 *
 * @example
 * const tasks = createTasks({ ...memory(), definitions: [report] })
 *
 * @throws {TypeError} An option is unknown or not valid.
 */
export function createTasks<const D extends Definitions>(options: TasksOptions<D>): Tasks<D> {
  const core = new TaskCore(readTasksOptions(options))
  startWorker(core)
  // In two steps: the types of a definition exist for the compiler only, so no value can be checked against them.
  const tasks = new AllTasks(core) as Tasks as Tasks<D>
  noteOpened()
  return tasks
}

class AllTasks extends ServedTasks implements Tasks {
  readonly #core: TaskCore
  #isClosed = false

  constructor(core: TaskCore) {
    super(core, 'all')
    this.#core = core
    Object.defineProperty(this, MARK, { value: true })
    cores.set(this, core)
  }

  definition(name: string): AnyTaskDefinition | undefined {
    return this.#core.definition(name)
  }

  ownedBy(owner: string | undefined, options: { readonly tenant?: string | undefined } = {}): OwnedTasks {
    checkNames('tasks.ownedBy', options, { tenant: 0 })
    const id = checkOwnerId('tasks.ownedBy: the id', owner)
    const { tenant } = options
    return new ServedTasks(this.#core, {
      owner: tenant === undefined ? id : checkTenantOwner('tasks.ownedBy', { owner: id, tenant }, true),
    })
  }

  health(): Promise<TasksHealth> {
    return this.#core.health()
  }

  pools(): Promise<PoolCounts[]> {
    return this.#core.counts()
  }

  pause(pool: string): Promise<void> {
    return this.#core.setPaused(pool, true)
  }

  resume(pool: string): Promise<void> {
    return this.#core.setPaused(pool, false)
  }

  close(options: { readonly drainMs?: number } = {}): Promise<void> {
    const { drainMs } = readOptions('tasks.close', options, {
      drainMs: duration({ max: Infinity, infinity: true, default: 10_000 }),
    })
    if (!this.#isClosed) noteClosed()
    this.#isClosed = true
    return this.#core.close(drainMs)
  }
}

/** Marks the objects that `createTasks` returns, in every copy of this package. */
const MARK = Symbol.for('longhaul.tasks')

const cores = new WeakMap<object, TaskCore>()

/** @throws {TypeError} `tasks` was not returned by `createTasks` of this copy of the package. */
export function coreOf(tasks: object | null | undefined, where = 'longhaul'): TaskCore {
  const core = tasks && cores.get(tasks)
  if (core) return core
  if (tasks && MARK in Object(tasks)) {
    throw new TypeError(`${where}: these tasks come from another copy of longhaul. ` +
      'Two copies are loaded by "import" beside "require", or by two versions in node_modules')
  }
  throw new TypeError(`${where}: pass what createTasks returned, then options`)
}
