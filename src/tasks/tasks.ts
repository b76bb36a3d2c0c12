import { checkNames } from '../runtime/option-names.js'
import type { AnyTaskDefinition } from './definition/define.js'
import { SUBMIT, type SubmitOptions } from './intake/submit-options.js'
import { OwnedTasks } from './owned-tasks.js'
import type { TaskSnapshot } from './record/codec.js'
import { checkOwnerId, ownerToSubmitFor, refuseOwner, type OwnerId } from './record/owner.js'
import { countedAsOwner, allTasks } from './record/owner.js'
import type { TaskView, Typed } from './record/view.js'
import { WAIT, type WaitOptions } from './record/wait.js'
import { bindService } from './service-of.js'
import { TaskService, type Cancelled, type Health } from './task-service.js'
import type { TasksOptions } from './tasks-options.js'

/**
 * Submits tasks and shows them. Made by `createTasks`; endpoints and the application's own code
 * share it.
 */
export interface Tasks {
  /** Returns the definition of this name, to choose the kind of work by a member of a body. */
  definition(name: string): AnyTaskDefinition | undefined
  /**
   * Validates the input, then accepts the task. Resolves once the task is stored and enqueued.
   * Throws `HttpError`s: 400 `invalid_input`, what `check` throws, 413 `body_too_large`, 429
   * `too_many_tasks`, 400 `invalid_callback_url` and `callback_url_forbidden`, 503 `queue_full`,
   * `shutting_down`, or a `StoreUnavailableError`.
   */
  submit(
    definition: AnyTaskDefinition, input: unknown, options?: SubmitOptions,
  ): Promise<{ id: string, created: boolean }>
  /**
   * Returns the tasks of one owner, for calls on a client's behalf:
   * `tasks.ownedBy(user?.id).get(id)`. `undefined` is an anonymous client, who has the tasks
   * without an owner; it never means all tasks.
   *
   * @throws {TypeError} `owner` is neither `undefined` nor a text that is not empty.
   */
  ownedBy(owner: OwnerId): OwnedTasks
  /**
   * Returns the task as its status resource shows it, whoever its owner is. `undefined` if it is
   * unknown.
   */
  get<R = unknown>(
    id: string, options?: { readonly definition?: Typed<R> },
  ): Promise<TaskView<R> | undefined>
  /**
   * Waits until the task is final, for up to `timeoutMs`, and resolves to the task as it is then.
   * `undefined` if it is unknown. Reports of progress do not end the wait. The process stays alive
   * meanwhile.
   */
  wait(id: string, options: WaitOptions): Promise<TaskSnapshot | undefined>
  /**
   * Cancels a task: its record is final at once, and the signal of its run aborts, in whatever
   * process that is. `moved` is `false` if it was final before. `undefined` if it is unknown.
   */
  cancel(id: string, options?: object): Promise<Cancelled | undefined>
  /**
   * Sends the callback of a final task again, from the first attempt on, whatever its outcome was.
   * `false` if there is no such task, or it has no callback. Rejects if it could not be enqueued.
   */
  redeliver(id: string): Promise<boolean>
  /** Deletes a final task. `false` if it is unknown or not final. */
  delete(id: string): Promise<boolean>
  /** Reports whether the store answers, and the load of this process. Never rejects. */
  health(): Promise<Health>
  /**
   * Accepts no new tasks, answers waiting requests, gives active runs `drainMs` (default 10
   * seconds) to finish, then stops them. A direct answer whose run is stopped is a 503
   * `shutting_down`. The store and its client stay open: the caller closes them.
   */
  close(options?: {
    /** Time that active runs get to finish. @default 10 000 */
    readonly drainMs?: number
  }): Promise<void>
}

/**
 * Creates tasks over a store and a queue.
 *
 * @example
 * const tasks = createTasks({ ...memory(), definitions: [report] })
 *
 * @throws {TypeError} an option is unknown or makes no sense
 */
export function createTasks(options: TasksOptions): Tasks {
  return new ServedTasks(new TaskService(options))
}

class ServedTasks implements Tasks {
  readonly #service: TaskService

  constructor(service: TaskService) {
    this.#service = service
    bindService(this, service)
  }

  definition(name: string): AnyTaskDefinition | undefined {
    return this.#service.definition(name)
  }

  async submit(
    definition: AnyTaskDefinition, input: unknown, options: SubmitOptions = {},
  ): Promise<{ id: string, created: boolean }> {
    checkNames('tasks.submit', options, SUBMIT)
    const owner = ownerToSubmitFor(options)
    const counted = owner === undefined ? {} : { counted: countedAsOwner(owner) }
    const accepted = await this.#service.submit(definition, input, { ...options, owner, ...counted })
    return { id: accepted.task.id, created: accepted.created }
  }

  ownedBy(owner: OwnerId): OwnedTasks {
    return new OwnedTasks(checkOwnerId('tasks.ownedBy: the id', owner), this.#service)
  }

  async get<R = unknown>(
    id: string, options: { readonly definition?: Typed<R> } = {},
  ): Promise<TaskView<R> | undefined> {
    refuseOwner('get', options)
    checkNames('tasks.get', options, { definition: 0 })
    const task = await this.#service.read(id)
    return task && (JSON.parse(task.text) as TaskView<R>)
  }

  async wait(id: string, options: WaitOptions): Promise<TaskSnapshot | undefined> {
    refuseOwner('wait', options)
    checkNames('tasks.wait', options, WAIT)
    return this.#service.wait(id, options, allTasks)
  }

  async cancel(id: string, options: object = {}): Promise<Cancelled | undefined> {
    refuseOwner('cancel', options)
    checkNames('tasks.cancel', options, {})
    return this.#service.cancel(id, allTasks)
  }

  redeliver(id: string): Promise<boolean> {
    return this.#service.redeliver(id)
  }

  delete(id: string): Promise<boolean> {
    return this.#service.delete(id, allTasks)
  }

  health(): Promise<Health> {
    return this.#service.health()
  }

  close(options: { readonly drainMs?: number } = {}): Promise<void> {
    checkNames('tasks.close', options, { drainMs: 0 })
    return this.#service.close(options.drainMs ?? 10_000)
  }
}
