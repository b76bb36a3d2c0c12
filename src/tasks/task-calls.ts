import { checkNames } from '../runtime/option-names.js'
import type { ListedStatus } from '../engine/engine.js'
import type { AnyTaskDefinition, ContextOf } from './definition/define.js'
import type { AcceptedTask, OwnedSubmitOptions } from './core/accept-task.js'
import { toFilter, type ListFilter, type ListOptions, type TaskPage } from './list-options.js'
import type { TaskSnapshot } from './record/snapshot.js'
import type { IsVisible } from './record/ids.js'
import { bodyOf, toTask, type Task } from './record/view.js'
import { WAIT, type WaitOptions } from './record/subscriptions.js'
import type { TaskService } from './core/task-service.js'

/**
 * The options of a submission: `O`. They are required, with their `context`, if the definition says
 * which context it needs.
 */
export type SubmitArguments<T extends AnyTaskDefinition, O extends OwnedSubmitOptions> =
  unknown extends ContextOf<T> ? [options?: O]
    : [options: Omit<O, 'context'> & { readonly context: ContextOf<T> }]

/**
 * A task that was submitted. If it was submitted in a transaction, its calls find the task after
 * the commit.
 */
export interface TaskHandle<T extends AnyTaskDefinition = AnyTaskDefinition> {
  readonly taskId: string
  /** `false` if a task of this id existed before: nothing new was started. */
  readonly created: boolean
  /** Returns the task. `undefined` once it has expired or was deleted. */
  get(): Promise<Task<T> | undefined>
  /** Waits until the task is final, for up to `timeoutMs`, and returns it as it is then. */
  wait(options: WaitOptions): Promise<Task<T> | undefined>
  /** Cancels the task and returns it. A task that was final before stays as it is. */
  cancel(): Promise<Task<T> | undefined>
}

/** The calls of `Tasks` and `OwnedTasks`, for the tasks that the caller may see. */
export class TaskCalls {
  constructor(readonly service: TaskService, private readonly isVisible: IsVisible) {}

  async get(id: string, definition: AnyTaskDefinition | undefined): Promise<Task | undefined> {
    if (definition !== undefined) this.service.mustHave(definition)
    return shown(await this.find(id), definition)
  }

  async wait(
    id: string, options: WaitOptions, definition?: AnyTaskDefinition,
  ): Promise<Task | undefined> {
    return shown(await this.service.wait(id, options, this.isVisible), definition)
  }

  async cancel(id: string): Promise<Task | undefined> {
    const cancelled = await this.service.cancel(id, this.isVisible)
    return shown(cancelled?.task)
  }

  async redeliver(id: string): Promise<boolean> {
    return await this.find(id) !== undefined && this.service.redeliver(id)
  }

  async retry(id: string): Promise<Task | undefined> {
    return shown(await this.service.retry(id, { maySee: this.isVisible }))
  }

  async delete(id: string): Promise<boolean> {
    return await this.service.forget(id, this.isVisible) === 'deleted'
  }

  async list<T extends AnyTaskDefinition, S extends ListedStatus>(
    where: string, of: ListFilter['of'], options: ListOptions<T, S>,
  ): Promise<TaskPage<T, S>> {
    const filter = toFilter(where, options, of, (definition) => this.service.mustHave(definition))
    const { items, next } = await this.service.list(filter, options.cursor)
    // The filter has what the types say.
    return { items: items.map(toTask), ...next !== undefined && { next } } as never
  }

  handle(definition: AnyTaskDefinition, { task, created }: AcceptedTask): TaskHandle {
    const { id } = task
    return {
      taskId: id,
      created,
      get: () => this.get(id, definition),
      wait: async (options) => {
        checkNames('wait', options, WAIT)
        return this.wait(id, options, definition)
      },
      cancel: () => this.cancel(id),
    }
  }

  private async find(id: string): Promise<TaskSnapshot | undefined> {
    const task = await this.service.read(id)
    return task && this.isVisible(task) ? task : undefined
  }
}

/** `undefined` also for a task of another kind than `definition`. */
function shown(task: TaskSnapshot | undefined, definition?: AnyTaskDefinition): Task | undefined {
  if (!task || (definition && bodyOf(task).task !== definition.name)) return undefined
  return toTask(task)
}
