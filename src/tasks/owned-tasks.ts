import { checkNames } from '../runtime/option-names.js'
import { OWNED_SUBMIT, type OwnedSubmitOptions } from './intake/accept.js'
import type { TaskSnapshot } from './record/codec.js'
import type { AnyTaskDefinition } from './definition/define.js'
import type { OwnerId } from './record/owner-id.js'
import type { TaskView, Typed } from './record/view.js'
import { WAIT, type WaitOptions } from './record/wait.js'

/** The calls of `Tasks` that a view of one owner narrows. */
export interface OwnerCalls {
  submit(
    owner: OwnerId, definition: AnyTaskDefinition, input: unknown, options: OwnedSubmitOptions,
  ): Promise<{ id: string, created: boolean }>
  look(owner: OwnerId, id: string): Promise<TaskSnapshot | undefined>
  wait(owner: OwnerId, id: string, options: WaitOptions): Promise<TaskSnapshot | undefined>
  cancel(owner: OwnerId, id: string): Promise<{ task: TaskSnapshot, moved: boolean } | undefined>
  redeliver(owner: OwnerId, id: string): Promise<boolean>
  delete(owner: OwnerId, id: string): Promise<boolean>
}

/**
 * The tasks of one owner, or those without an owner for an anonymous client. The calls are those of
 * `Tasks`; a task of somebody else is treated as unknown. Made by `tasks.ownedBy`.
 */
export class OwnedTasks {
  readonly #owner: OwnerId
  readonly #calls: OwnerCalls

  /** Use `tasks.ownedBy`. */
  constructor(owner: OwnerId, calls: OwnerCalls) {
    this.#owner = owner
    this.#calls = calls
  }

  /**
   * Submits a task that belongs to this owner. `maxPerOwner` counts it; the tasks of all anonymous
   * clients count together here. Throws as `Tasks.submit` does.
   */
  async submit(
    definition: AnyTaskDefinition, input: unknown, options: OwnedSubmitOptions = {},
  ): Promise<{ id: string, created: boolean }> {
    checkNames('ownedBy: submit', options, OWNED_SUBMIT)
    return this.#calls.submit(this.#owner, definition, input, options)
  }

  /**
   * Returns the task as its status resource shows it. `undefined` when this owner has no such task.
   */
  async get<R = unknown>(id: string, options: { readonly definition?: Typed<R> } = {}): Promise<TaskView<R> | undefined> {
    checkNames('ownedBy: get', options, { definition: 0 })
    const task = await this.#calls.look(this.#owner, id)
    return task && (JSON.parse(task.face) as TaskView<R>)
  }

  /**
   * Waits until the task is final, for up to `timeoutMs`. `undefined` when this owner has no such
   * task.
   */
  async wait(id: string, options: WaitOptions): Promise<TaskSnapshot | undefined> {
    checkNames('ownedBy: wait', options, WAIT)
    return this.#calls.wait(this.#owner, id, options)
  }

  /**
   * Cancels the task. `moved` is false when it had ended before. `undefined` when this owner has no
   * such task.
   */
  async cancel(id: string): Promise<{ task: TaskSnapshot, moved: boolean } | undefined> {
    return this.#calls.cancel(this.#owner, id)
  }

  /**
   * Sends the callback of a task that has ended once more. `false` when this owner has no such
   * task.
   */
  async redeliver(id: string): Promise<boolean> {
    return this.#calls.redeliver(this.#owner, id)
  }

  /**
   * Deletes a task that has ended. `false` when this owner has no such task, or it has not ended.
   */
  async delete(id: string): Promise<boolean> {
    return this.#calls.delete(this.#owner, id)
  }
}
