import type { TaskRun } from '../../engine/engine.js'
import type { StoredTask } from '../../engine/task.js'
import { OPERATORS } from '../../http/requester.js'
import { namedOwner } from '../../runtime/names.js'
import { digestOf } from '../../idempotency/key.js'
import type { FailedWork } from '../definition/failed-work.js'
import { detailsOf, type Details, type StoredTaskFailure, type FollowUp } from '../record/details.js'
import { publishAccepted, taskChannel } from '../record/diagnostics.js'
import { queueFull } from '../run/failure.js'
import { newTask } from './accept-task.js'
import type { TaskCore } from './task-core.js'

/** Returns the work that follows a failed run, which the write that fails the task stores with it. */
export function followUpOf(
  core: TaskCore, { task, input }: TaskRun, { failure: errors, context }: Details, failure: StoredTaskFailure,
): FollowUp | undefined {
  const next = core.definition(task.name)?.onFailed
  if (next === undefined) return undefined
  const { id: taskId, name, attempt } = task
  const { owner, tenant } = namedOwner(task.owner)
  const { code, message, details } = failure
  const cause = errors?.runs.at(-1)?.error
  const work: FailedWork = {
    taskId, task: name, ...owner !== undefined && { owner }, ...tenant !== undefined && { tenant }, attempt,
    error: { code, message, ...details && { details } },
    ...cause && { cause }, input: input.value, context,
  }
  return { task: next.name, work }
}

/**
 * Makes the attempt at the work after the end of a task that the engine has requested: creates its
 * follow-up, or sends its callback. If that fails, the engine makes another attempt after a minute.
 * Never rejects.
 */
export async function afterEnd(core: TaskCore, task: StoredTask): Promise<void> {
  const { followUp, ...details } = detailsOf(task)
  if (followUp === undefined) return core.deliveries?.deliver(task)
  const expected = { callbackRun: task.callbackRun }
  try {
    await startFollowUp(core, task)
    const callbackMs = details.callback?.state === 'pending' ? 0 : null
    await core.persist(task, expected, { details, callbackMs, isHidden: true })
  } catch (error) {
    core.report(error, task)
  }
}

/** Creates the task that follows a failed one, unless it exists. Changes nothing of the failed task. */
export async function startFollowUp(core: TaskCore, task: StoredTask): Promise<void> {
  const { followUp, round = task.birth } = detailsOf(task)
  if (followUp === undefined) return
  const definition = core.definition(followUp.task)
  if (definition === undefined) throw new Error(`${task.name} has onFailed: ${followUp.task}, which is not among the definitions of this process`)
  // The same for each attempt, and new for each failure.
  const id = digestOf(JSON.stringify([followUp.task, task.id, round]))
  const submission = { definition, input: followUp.work, id, owner: OPERATORS, caller: undefined }
  const created = await core.engine.create(newTask(core, submission, undefined, undefined))
  if (created.outcome === 'full') throw queueFull()
  if (created.outcome === 'created' && taskChannel.hasSubscribers) publishAccepted(created.task)
}
