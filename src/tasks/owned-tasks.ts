import { countedAsOwner, countedWithoutOwner } from '../http/requester.js'
import { checkNames } from '../runtime/option-names.js'
import type { ListedStatus } from '../engine/engine.js'
import type { AnyTaskDefinition, Definitions, InputOf } from './definition/define.js'
import type { ListOptions, TaskPage } from './list-options.js'
import { OWNED_SUBMIT, type OwnedSubmitOptions } from './core/accept-task.js'
import { belongsTo, type OwnerId } from './record/ids.js'
import type { Task } from './record/view.js'
import { WAIT, type WaitOptions } from './record/subscriptions.js'
import { TaskCalls, type SubmitArguments, type TaskHandle } from './task-calls.js'
import type { TaskService } from './core/task-service.js'

/**
 * The tasks of one owner, or those without an owner for an anonymous client. A task of another
 * owner is treated as unknown. Made by `tasks.ownedBy`.
 */
export interface OwnedTasks<D extends Definitions = Definitions> {
  /**
   * Submits a task that belongs to this owner. `maxPerOwner` counts it. The tasks of all anonymous
   * clients count together here. Throws as `Tasks.submit` does.
   *
   * @example
   * const task = await tasks.ownedBy('ann').submit(report, { year: 2025 })
   */
  submit<T extends D[number]>(
    definition: T, input: InputOf<T>, ...options: SubmitArguments<T, OwnedSubmitOptions>
  ): Promise<TaskHandle<T>>
  /**
   * Returns the task. `undefined` if this owner has no such task, or it is not of the given
   * definition.
   *
   * @example
   * const task = await tasks.ownedBy('ann').get('a-task-id', report)
   */
  get(id: string): Promise<Task<D[number]> | undefined>
  /** Returns the task if it is of the given definition. */
  get<T extends D[number]>(id: string, definition: T): Promise<Task<T> | undefined>
  /**
   * Waits until the task is final, for up to `timeoutMs`. `undefined` if this owner has no such
   * task.
   *
   * @example
   * const task = await tasks.ownedBy('ann').wait('a-task-id', { timeoutMs: 5000 })
   */
  wait(id: string, options: WaitOptions): Promise<Task<D[number]> | undefined>
  /**
   * Cancels the task and returns it. A task that was final before is returned as it is. `undefined`
   * if this owner has no such task.
   *
   * @example
   * const task = await tasks.ownedBy('ann').cancel('a-task-id')
   */
  cancel(id: string): Promise<Task<D[number]> | undefined>
  /**
   * Sends the callback of a final task again. `false` if this owner has no such task.
   *
   * @example
   * const isSent = await tasks.ownedBy('ann').redeliver('a-task-id')
   */
  redeliver(id: string): Promise<boolean>
  /**
   * Returns a page of the tasks of this owner, the newest first. See `Tasks.list`. Without an owner
   * it lists the tasks that have none, which all anonymous clients share.
   *
   * @example
   * const { items, next } = await tasks.ownedBy('ann').list({ status: ['completed', 'failed'] })
   *
   * @throws {HttpError} 400 `invalid_cursor`: the cursor is malformed, or of a list with another
   * owner or other options
   * @throws {TypeError} an option is unknown or makes no sense
   */
  list<T extends D[number] = D[number], S extends ListedStatus = ListedStatus>(
    options?: ListOptions<T, S>,
  ): Promise<TaskPage<T, S>>
  /**
   * Runs a failed or cancelled task again, under the same id and with its old input. The task then
   * has the status `queued`. Its attempt numbers continue. Returns the task as it is now.
   * `undefined` if this owner has no such task.
   *
   * @example
   * const task = await tasks.ownedBy('ann').retry('a-task-id')
   *
   * @throws {HttpError} 409 `task_not_final`, `task_already_completed` or `conflict` (another call
   * was faster), 410 `gone`: its input is no longer stored, 429 `too_many_tasks`, 503 `queue_full`
   * or `shutting_down`
   * @throws {StoreUnavailableError} the engine does not answer
   */
  retry(id: string): Promise<Task<D[number]> | undefined>
  /**
   * Deletes a final task and all that it owns. `false` if this owner has no such task, or it is not
   * final.
   *
   * @example
   * const isDeleted = await tasks.ownedBy('ann').delete('a-task-id')
   */
  delete(id: string): Promise<boolean>
}

/** See `tasks.ownedBy`. */
export function createOwnedTasks(owner: OwnerId, service: TaskService): OwnedTasks {
  return new ServedOwnedTasks(owner, service)
}

class ServedOwnedTasks implements OwnedTasks {
  readonly #owner: OwnerId
  readonly #service: TaskService
  readonly #calls: TaskCalls

  constructor(owner: OwnerId, service: TaskService) {
    this.#owner = owner
    this.#service = service
    this.#calls = new TaskCalls(service, (task) => belongsTo(task, owner))
  }

  async submit<T extends AnyTaskDefinition>(
    definition: T, input: InputOf<T>, options: OwnedSubmitOptions = {},
  ): Promise<TaskHandle<T>> {
    checkNames('ownedBy: submit', options, OWNED_SUBMIT)
    const owner = this.#owner
    const accepted = await this.#service.submit(definition, input, {
      ...options, owner, caller: countedFor(owner),
    })
    return this.#calls.handle(definition, accepted)
  }

  async get<T extends AnyTaskDefinition>(id: string, definition?: T): Promise<Task<T> | undefined> {
    return await this.#calls.get(id, definition) as Task<T> | undefined
  }

  async wait(id: string, options: WaitOptions): Promise<Task | undefined> {
    checkNames('ownedBy: wait', options, WAIT)
    return this.#calls.wait(id, options)
  }

  cancel(id: string): Promise<Task | undefined> {
    return this.#calls.cancel(id)
  }

  redeliver(id: string): Promise<boolean> {
    return this.#calls.redeliver(id)
  }

  async list<T extends AnyTaskDefinition, S extends ListedStatus>(
    options: ListOptions<T, S> = {},
  ): Promise<TaskPage<T, S>> {
    return this.#calls.list('ownedBy: list', { owner: this.#owner }, options)
  }

  retry(id: string): Promise<Task | undefined> {
    return this.#calls.retry(id)
  }

  delete(id: string): Promise<boolean> {
    return this.#calls.delete(id)
  }
}

function countedFor(owner: OwnerId): string {
  return owner === undefined ? countedWithoutOwner(undefined) : countedAsOwner(owner)
}
