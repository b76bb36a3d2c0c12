import { checkNames } from '../runtime/option-names.js'
import { belongsTo, countedAsOwner, countedWithoutOwner, type IsVisible } from './record/owner.js'
import type { Cancelled, TaskService } from './task-service.js'
import { OWNED_SUBMIT, type OwnedSubmitOptions } from './intake/submit-options.js'
import type { TaskSnapshot } from './record/codec.js'
import type { AnyTaskDefinition } from './definition/define.js'
import type { OwnerId } from './record/owner.js'
import type { TaskView, Typed } from './record/view.js'
import { WAIT, type WaitOptions } from './record/wait.js'

/**
 * The tasks of one owner, or those without an owner for an anonymous client. The calls are those of
 * `Tasks`; a task of somebody else is treated as unknown. Made by `tasks.ownedBy`.
 */
export class OwnedTasks {
  readonly #owner: OwnerId
  readonly #service: TaskService

  /** Use `tasks.ownedBy`. */
  constructor(owner: OwnerId, service: TaskService) {
    this.#owner = owner
    this.#service = service
  }

  /**
   * Submits a task that belongs to this owner. `maxPerOwner` counts it; the tasks of all anonymous
   * clients count together here. Throws as `Tasks.submit` does.
   */
  async submit(
    definition: AnyTaskDefinition, input: unknown, options: OwnedSubmitOptions = {},
  ): Promise<{ id: string, created: boolean }> {
    checkNames('ownedBy: submit', options, OWNED_SUBMIT)
    const owner = this.#owner
    const counted = owner === undefined ? countedWithoutOwner(undefined) : countedAsOwner(owner)
    const { task, created } = await this.#service.submit(definition, input, { ...options, owner, counted })
    return { id: task.id, created }
  }

  /**
   * Returns the task as its status resource shows it. `undefined` when this owner has no such task.
   */
  async get<R = unknown>(id: string, options: { readonly definition?: Typed<R> } = {}): Promise<TaskView<R> | undefined> {
    checkNames('ownedBy: get', options, { definition: 0 })
    const task = await this.#service.read(id)
    return task && this.#mine(task) ? JSON.parse(task.text) as TaskView<R> : undefined
  }

  /**
   * Waits until the task is final, for up to `timeoutMs`. `undefined` when this owner has no such
   * task.
   */
  async wait(id: string, options: WaitOptions): Promise<TaskSnapshot | undefined> {
    checkNames('ownedBy: wait', options, WAIT)
    return this.#service.wait(id, options, this.#mine)
  }

  /**
   * Cancels the task. `moved` is false when it had ended before. `undefined` when this owner has no
   * such task.
   */
  async cancel(id: string): Promise<Cancelled | undefined> {
    return this.#service.cancel(id, this.#mine)
  }

  /**
   * Sends the callback of a task that has ended once more. `false` when this owner has no such
   * task.
   */
  async redeliver(id: string): Promise<boolean> {
    const task = await this.#service.read(id)
    return task !== undefined && this.#mine(task) && this.#service.redeliver(id)
  }

  /**
   * Deletes a task that has ended. `false` when this owner has no such task, or it has not ended.
   */
  async delete(id: string): Promise<boolean> {
    return this.#service.delete(id, this.#mine)
  }

  readonly #mine: IsVisible = (task) => belongsTo(task, this.#owner)
}
