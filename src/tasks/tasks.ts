import { countedAsOwner, checkOwnerId } from '../http/requester.js'
import { checkNames } from '../runtime/option-names.js'
import type { ListedStatus } from '../engine/engine.js'
import type { AnyTaskDefinition, Definitions, InputOf } from './definition/define.js'
import { SUBMIT, type SubmitOptions } from './core/accept-task.js'
import type { ListOptions, TaskPage } from './list-options.js'
import { createOwnedTasks, type OwnedTasks } from './owned-tasks.js'
import { allTasks, ownerToSubmitFor, refuseOwner } from './record/ids.js'
import type { Task } from './record/view.js'
import type { PoolCounts } from './core/pools.js'
import { WAIT, type WaitOptions } from './record/subscriptions.js'
import { bindService } from './service-of.js'
import { TaskCalls, type SubmitArguments, type TaskHandle } from './task-calls.js'
import type { TasksHealth } from './service-types.js'
import { TaskService } from './core/task-service.js'
import type { TasksOptions } from './tasks-options.js'

/**
 * Submits tasks and shows them. Made by `createTasks`; endpoints and the application's own code
 * share it. `D` are the registered definitions.
 *
 * These calls see the tasks of all owners. On behalf of a client, use `ownedBy`.
 */
export interface Tasks<D extends Definitions = Definitions> {
  /**
   * Returns the definition of this name, to choose the kind of work by a member of a body.
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
   * @throws {HttpError} 400 `invalid_input`, what `check` throws, 413 `body_too_large`, 429
   * `too_many_tasks`, 400 `invalid_callback_url` and `callback_url_forbidden`, 503 `queue_full`,
   * `shutting_down`
   * @throws {StoreUnavailableError} the engine does not answer
   * @throws {TypeError} the definition is not registered, or an option is unknown; `transaction` is
   * not open, or belongs to another database than the engine
   */
  submit<T extends D[number]>(
    definition: T, input: InputOf<T>, ...options: SubmitArguments<T, SubmitOptions>
  ): Promise<TaskHandle<T>>
  /**
   * Returns the task, whoever owns it. `undefined` if it is unknown, or is not of the given
   * definition.
   *
   * @example
   * const task = await tasks.get('a-task-id', report)
   * if (task?.status === 'failed') console.error(task.error.code)
   */
  get(id: string): Promise<Task<D[number]> | undefined>
  /** Returns the task if it is of the given definition. */
  get<T extends D[number]>(id: string, definition: T): Promise<Task<T> | undefined>
  /**
   * Waits until the task is final, for up to `timeoutMs`, and returns it as it is then. `undefined`
   * if it is unknown. Reports of progress do not end the wait. The process stays alive meanwhile.
   *
   * @example
   * const task = await tasks.wait('a-task-id', { timeoutMs: 5000 })
   */
  wait(id: string, options: WaitOptions): Promise<Task<D[number]> | undefined>
  /**
   * Cancels a task and returns it: it is final at once, and the signal of its run aborts, in
   * whatever process that is. A task that was final before is returned as it is. `undefined` if it
   * is unknown.
   *
   * @example
   * const task = await tasks.cancel('a-task-id')
   * if (task?.status !== 'cancelled') console.log('too late, or unknown')
   */
  cancel(id: string): Promise<Task<D[number]> | undefined>
  /**
   * Sends the callback of a final task again, from the first attempt on, whatever its outcome was.
   * `false` if there is no such task, or it has no callback. Rejects with a `StoreUnavailableError`
   * if the engine does not answer.
   *
   * @example
   * const isSent = await tasks.redeliver('a-task-id')
   */
  redeliver(id: string): Promise<boolean>
  /**
   * Returns a page of the tasks of all owners, the newest first. `task` and `status` narrow the
   * type of its items. A page may have fewer items than `limit` although there is a next one.
   *
   * @example
   * const { items, next } = await tasks.list({ status: 'failed', task: report, limit: 100 })
   * for (const { taskId, error } of items) console.error(taskId, error.code)
   * if (next !== undefined) await tasks.list({ status: 'failed', task: report, cursor: next })
   *
   * @throws {HttpError} 400 `invalid_cursor`: the cursor is malformed, or of a list with other
   * options
   * @throws {TypeError} an option is unknown or makes no sense
   */
  list<T extends D[number] = D[number], S extends ListedStatus = ListedStatus>(
    options?: ListOptions<T, S>,
  ): Promise<TaskPage<T, S>>
  /**
   * Runs a failed or cancelled task again, under the same id and with its old input. The task then
   * has the status `queued`. Its attempt numbers continue. Returns the task as it is now.
   * `undefined` if it is unknown.
   *
   * @example
   * const task = await tasks.retry('a-task-id')
   *
   * @throws {HttpError} 409 `task_not_final`, `task_already_completed` or `conflict` (another call
   * was faster), 410 `gone`: its input is no longer stored, 429 `too_many_tasks`, 503 `queue_full`
   * or `shutting_down`
   * @throws {StoreUnavailableError} the engine does not answer
   */
  retry(id: string): Promise<Task<D[number]> | undefined>
  /**
   * Deletes a final task and all that it owns, such as a spooled upload. `false` if it is unknown or
   * not final. Its Idempotency-Key can then be used again.
   *
   * @example
   * const isDeleted = await tasks.delete('a-task-id')
   */
  delete(id: string): Promise<boolean>
  /**
   * Returns the tasks of one owner, for calls on a client's behalf. `undefined` is an anonymous
   * client, who has the tasks without an owner. It never means all tasks.
   *
   * @example
   * const mine = tasks.ownedBy('ann')
   * const task = await mine.get('a-task-id')
   *
   * @throws {TypeError} `owner` is neither `undefined` nor a text that is not empty.
   */
  ownedBy(owner: string | undefined): OwnedTasks<D>
  /**
   * Reports whether the engine answers, and the load of this process. Never rejects.
   *
   * @example
   * const { ok } = await tasks.health()
   */
  health(): Promise<TasksHealth>
  /**
   * Counts the work of each pool in all processes, for an operator. A pool that no process works
   * shows by its `oldestWaitingMs`.
   *
   * On PostgreSQL the cost grows with the number of waiting tasks. Rejects if the engine does not
   * answer.
   *
   * @example
   * for (const { pool, waiting, oldestWaitingMs } of await tasks.pools()) {
   *   console.log(pool, waiting, oldestWaitingMs)
   * }
   */
  pools(): Promise<PoolCounts[]>
  /**
   * Accepts no new tasks, answers waiting requests, gives active runs `drainMs` (default 10
   * seconds) to finish, then stops them. A direct answer whose run is stopped is a 503
   * `shutting_down`. Closes the engine too. The store, the blobs and your clients stay open: close
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
 * Creates tasks over a task engine and a store.
 *
 * @example
 * const tasks = createTasks({ ...memory(), definitions: [report] })
 *
 * @throws {TypeError} an option is unknown or makes no sense
 */
export function createTasks<const D extends Definitions>(options: TasksOptions<D>): Tasks<D> {
  // `D` is for the compiler only, so the object is written without it.
  return new ServedTasks(new TaskService(options)) as Tasks as Tasks<D>
}

class ServedTasks implements Tasks {
  readonly #service: TaskService
  readonly #calls: TaskCalls

  constructor(service: TaskService) {
    this.#service = service
    this.#calls = new TaskCalls(service, allTasks)
    bindService(this, service)
  }

  definition(name: string): AnyTaskDefinition | undefined {
    return this.#service.definition(name)
  }

  async submit<T extends AnyTaskDefinition>(
    definition: T, input: InputOf<T>, options: SubmitOptions = {},
  ): Promise<TaskHandle<T>> {
    checkNames('tasks.submit', options, SUBMIT)
    const owner = ownerToSubmitFor(options)
    const caller = owner === undefined ? undefined : countedAsOwner(owner)
    const accepted = await this.#service.submit(definition, input, { ...options, owner, caller })
    return this.#calls.handle(definition, accepted)
  }

  async get<T extends AnyTaskDefinition>(id: string, definition?: T): Promise<Task<T> | undefined> {
    if (definition) refuseOwner('get', definition)
    return await this.#calls.get(id, definition) as Task<T> | undefined
  }

  async wait(id: string, options: WaitOptions): Promise<Task | undefined> {
    refuseOwner('wait', options)
    checkNames('tasks.wait', options, WAIT)
    return this.#calls.wait(id, options)
  }

  /** `options` is not in the type. It is read because `{ owner }` must not cancel others' tasks. */
  async cancel(id: string, options: object = {}): Promise<Task | undefined> {
    refuseOwner('cancel', options)
    checkNames('tasks.cancel', options, {})
    return this.#calls.cancel(id)
  }

  redeliver(id: string): Promise<boolean> {
    return this.#service.redeliver(id)
  }

  async list<T extends AnyTaskDefinition, S extends ListedStatus>(
    options: ListOptions<T, S> = {},
  ): Promise<TaskPage<T, S>> {
    refuseOwner('list', options)
    return this.#calls.list('tasks.list', 'all', options)
  }

  retry(id: string): Promise<Task | undefined> {
    return this.#calls.retry(id)
  }

  delete(id: string): Promise<boolean> {
    return this.#calls.delete(id)
  }

  ownedBy(owner: string | undefined): OwnedTasks {
    return createOwnedTasks(checkOwnerId('tasks.ownedBy: the id', owner), this.#service)
  }

  health(): Promise<TasksHealth> {
    return this.#service.health()
  }

  pools(): Promise<PoolCounts[]> {
    return this.#service.counts()
  }

  close(options: { readonly drainMs?: number } = {}): Promise<void> {
    checkNames('tasks.close', options, { drainMs: 0 })
    return this.#service.close(options.drainMs ?? 10_000)
  }
}
