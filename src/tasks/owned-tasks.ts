import type { ListedStatus } from '../engine/engine.js'
import { checkedOwner, checkOwnerId, checkTenantId, countedAsOwner, UNKNOWN_CALLER } from '../http/requester.js'
import { checkNames } from '../runtime/option-names.js'
import { duration, readOptions, value, type OptionTable } from '../runtime/options.js'
import {
  OWNED_SUBMIT, SUBMIT, submitTask, type AcceptedTask, type OwnedSubmitOptions, type SubmitOptions,
} from './core/accept-task.js'
import { answerTask, type Answers } from './core/answer-task.js'
import { cancelTask, deleteTask, retryTask } from './core/change-task.js'
import type { TaskCore } from './core/task-core.js'
import type { AnyTaskDefinition, ContextOf, Definitions, InputOf } from './definition/define.js'
import { listTasks, toFilter, type AllListOptions, type ListOptions, type TaskPage } from './lists.js'
import { isIn, isTaskId, type Scope } from './record/details.js'
import { toOwnTask, toTask, type Task } from './record/view.js'
import { waitFor } from './record/subscriptions.js'
import type { StoredTask } from '../engine/task.js'
import type { WaitOptions } from '../stores/watched.js'

/**
 * The tasks of one owner, or those without an owner for an anonymous client. Tasks of others are
 * treated as unknown. Made by `tasks.ownedBy`. `Tasks` has the same calls for all owners.
 */
export interface OwnedTasks<D extends Definitions = Definitions> {
  /**
   * Submits a task that belongs to this owner. `maxPerOwner` counts it; all anonymous clients count
   * as one owner here. Throws as `Tasks.submit` does.
   *
   * @example
   * const task = await tasks.ownedBy('ann').submit(report, { year: 2025 })
   */
  submit<T extends D[number]>(
    definition: T, input: InputOf<T>, ...options: SubmitArguments<T, OwnedSubmitOptions>
  ): Promise<TaskHandle<T>>
  /**
   * Returns the task. `undefined` if there is no such task, or it is not of the given definition.
   *
   * @example
   * const task = await tasks.ownedBy('ann').get('a-task-id', report)
   */
  get(id: string): Promise<Task<D[number]> | undefined>
  /** Returns the task if it is of the given definition. */
  get<T extends D[number]>(id: string, definition: T): Promise<Task<T> | undefined>
  /**
   * Waits until the task is final, for up to `timeoutMs`, and returns the task as it is then.
   * `undefined` if there is no such task. The process stays alive meanwhile.
   *
   * @example
   * const task = await tasks.ownedBy('ann').wait('a-task-id', { timeoutMs: 5000 })
   */
  wait(id: string, options: WaitOptions): Promise<Task<D[number]> | undefined>
  /**
   * Cancels the task and returns it. The signal of its run aborts, in whatever process that is. A
   * task that was final before is returned as it is. `undefined` if there is no such task.
   *
   * @example
   * const task = await tasks.ownedBy('ann').cancel('a-task-id')
   */
  cancel(id: string): Promise<Task<D[number]> | undefined>
  /**
   * Answers questions of the task, by their keys. All answers are stored, or none. Once all questions have
   * an answer, the task runs again. Equal answers that are stored already change nothing. Returns the task
   * as it is now. `undefined` if there is no such task.
   *
   * @example
   * const task = await tasks.ownedBy('ann').answer('a-task-id', { approve: { send: true } })
   *
   * @throws {HttpError} 400 `invalid_input`, 409 `already_answered`, `input_timed_out`,
   * `task_already_final` or `conflict`, 413 `body_too_large`, 422 `unknown_input`
   * @throws {StoreUnavailableError} The engine does not respond.
   */
  answer(id: string, answers: Answers): Promise<Task<D[number]> | undefined>
  /**
   * Sends the callback of a final task again, whatever its outcome was. `false` if there is no such
   * task, or it has no callback.
   *
   * @example
   * const isSent = await tasks.ownedBy('ann').redeliver('a-task-id')
   */
  redeliver(id: string): Promise<boolean>
  /**
   * Returns a page of the tasks, the newest first. `task` and `status` narrow the type of its items.
   * A page may have fewer items than `limit` although there is a next one.
   *
   * @example
   * const { items, next } = await tasks.ownedBy('ann').list({ status: 'failed', task: report })
   * for (const { taskId, error } of items) console.error(taskId, error.code)
   * if (next !== undefined) await tasks.ownedBy('ann').list({ status: 'failed', task: report, cursor: next })
   *
   * @throws {HttpError} 400 `invalid_cursor`: malformed, or of a list with another owner or options
   * @throws {TypeError} An option is unknown or not valid.
   */
  list<T extends D[number] = D[number], S extends ListedStatus = ListedStatus>(
    options?: ListOptions<T, S>,
  ): Promise<TaskPage<T, S>>
  /**
   * Runs a failed or cancelled task again, under the same id and with its old input. Its attempt
   * numbers continue. Returns the task as it is now. `undefined` if there is no such task.
   *
   * @example
   * const task = await tasks.ownedBy('ann').retry('a-task-id')
   *
   * @throws {HttpError} 409 `task_not_final`, `task_already_completed` or `conflict` (another call
   * was faster), 410 `gone` (its input is no longer stored), 429 `too_many_tasks`, 503 `queue_full`
   * or `shutting_down`
   * @throws {StoreUnavailableError} The engine does not respond.
   */
  retry(id: string): Promise<Task<D[number]> | undefined>
  /**
   * Deletes a final task and all that it owns, such as a spooled upload. `false` if there is no such
   * task, or it is not final. Its Idempotency-Key can then be used again.
   *
   * @example
   * const isDeleted = await tasks.ownedBy('ann').delete('a-task-id')
   */
  delete(id: string): Promise<boolean>
}

/** Options of a submission. Required, with `context`, if the definition needs one. */
export type SubmitArguments<T extends AnyTaskDefinition, O extends OwnedSubmitOptions> =
  unknown extends ContextOf<T> ? [options?: O]
    : [options: Omit<O, 'context'> & { readonly context: ContextOf<T> }]

/** A task that was submitted. If it belongs to a transaction, its calls find it after the commit. */
export interface TaskHandle<T extends AnyTaskDefinition = AnyTaskDefinition> {
  readonly taskId: string
  /** `false` if a task of this id existed before: nothing new was started. */
  readonly created: boolean
  /** `true` if the unfinished task of the same `unique` key got the input of this call. */
  readonly replaced: boolean
  /** Returns the task. `undefined` once it has expired or was deleted. */
  get(): Promise<Task<T> | undefined>
  /** Waits until the task is final, for up to `timeoutMs`, and returns it as it is then. */
  wait(options: WaitOptions): Promise<Task<T> | undefined>
  /** Cancels the task and returns it. A task that was final before stays as it is. */
  cancel(): Promise<Task<T> | undefined>
}

const WAIT_OPTIONS = {
  timeoutMs: duration({ max: Infinity, infinity: true, required: true }), signal: value(),
} satisfies OptionTable<WaitOptions>

export class ServedTasks implements OwnedTasks {
  readonly #core: TaskCore
  readonly #of: Scope

  constructor(core: TaskCore, of: Scope) {
    this.#core = core
    this.#of = of
  }

  async submit<T extends AnyTaskDefinition>(
    definition: T, input: InputOf<T>, options: SubmitOptions = {},
  ): Promise<TaskHandle<T>> {
    const [where, names] = this.#of === 'all'
      ? ['tasks.submit', SUBMIT] : ['ownedBy: submit', OWNED_SUBMIT]
    checkNames(where, options, names)
    const owner = this.#of === 'all' ? ownerOf(options) : this.#of.owner
    const nobody = this.#of === 'all' ? undefined : UNKNOWN_CALLER
    const caller = owner === undefined ? nobody : countedAsOwner(owner)
    const accepted = await submitTask(this.#core, definition, input, { ...options, owner, caller })
    return handleOf(this, definition, accepted)
  }

  async get<T extends AnyTaskDefinition>(id: string, definition?: T): Promise<Task<T> | undefined> {
    if (definition !== undefined) {
      this.#checkOwner('get', definition)
      this.#core.mustHave(definition)
    }
    return this.#shown(await this.#find(id), definition) as Task<T> | undefined
  }

  async wait(id: string, options: WaitOptions): Promise<Task | undefined> {
    this.#checkOwner('wait', options)
    const limits = readOptions('wait', options, WAIT_OPTIONS)
    if (!isTaskId(id)) return undefined
    const { subscriptions } = this.#core
    return this.#shown(await waitFor(subscriptions, id, this.#of, limits))
  }

  /**
   * The parameter `options` is not part of the type. It is checked because a call with `{ owner }`
   * must not cancel tasks of other owners.
   */
  async cancel(id: string, options: object = {}): Promise<Task | undefined> {
    this.#checkOwner('cancel', options)
    checkNames('cancel', options, {})
    return this.#shown((await cancelTask(this.#core, id, this.#of))?.task)
  }

  async answer(id: string, answers: Answers): Promise<Task | undefined> {
    // A copy of what JSON keeps, as of a request.
    const copy: unknown = JSON.parse(JSON.stringify(answers) ?? 'null')
    return this.#shown(await answerTask(this.#core, id, this.#of, copy))
  }

  async redeliver(id: string): Promise<boolean> {
    return await this.#find(id) !== undefined && this.#core.redeliver(id)
  }

  async list<T extends AnyTaskDefinition, S extends ListedStatus>(
    options: AllListOptions<T, S> = {},
  ): Promise<TaskPage<T, S>> {
    this.#checkOwner('list', options)
    const filter = toFilter('list', options, this.#of, (each) => { this.#core.mustHave(each) })
    const { items, next } = await listTasks(this.#core.engine, filter, options.cursor)
    return { items: items.map((item) => this.#view(item)), ...next !== undefined && { next } } as never
  }

  async retry(id: string): Promise<Task | undefined> {
    const task = await retryTask(this.#core, id, this.#of)
    return this.#shown(task)
  }

  async delete(id: string): Promise<boolean> {
    return await deleteTask(this.#core, id, this.#of) === 'deleted'
  }

  /** Throws a `TypeError` for an option `owner`, which a call for all owners would not obey. */
  #checkOwner(call: string, options: object): void {
    if (this.#of !== 'all' || !('owner' in Object(options))) return
    throw new TypeError(`tasks.${call}: there is no option "owner", because this call sees the tasks of all owners; `
      + `write tasks.ownedBy(owner).${call}(…)`)
  }

  async #find(id: string): Promise<StoredTask | undefined> {
    const task = await this.#core.read(id)
    return task && isIn(this.#of, task) ? task : undefined
  }

  #shown(task: StoredTask | undefined, definition?: AnyTaskDefinition): Task | undefined {
    if (!task || (definition && task.name !== definition.name)) return undefined
    return this.#view(task)
  }

  #view(task: StoredTask): Task {
    return this.#of === 'all' ? toOwnTask(task) : toTask(task)
  }
}

/** Returns the owner that the task will have, as it is stored. */
function ownerOf(options: SubmitOptions): string | undefined {
  const owner = checkOwnerId('tasks.submit: owner', options.owner)
  const tenant = checkTenantId('tasks.submit: tenant', options.tenant)
  if (owner !== undefined || !('owner' in options)) return checkedOwner('tasks.submit', { owner, tenant })
  throw new TypeError('tasks.submit: owner is undefined. Leave it out for a task of your own; '
    + 'for a client who may be anonymous, write tasks.ownedBy(user?.id).submit(…)')
}

function handleOf(
  tasks: ServedTasks, definition: AnyTaskDefinition, { task: { id }, created, replaced }: AcceptedTask,
): TaskHandle {
  const ofKind = (task: Task | undefined) => (task?.task === definition.name ? task : undefined)
  return {
    taskId: id,
    created,
    replaced,
    get: () => tasks.get(id, definition),
    wait: async (options) => ofKind(await tasks.wait(id, options)),
    cancel: () => tasks.cancel(id),
  }
}
