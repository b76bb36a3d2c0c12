import { httpError, HttpError } from '../../http/errors.js'
import { readFailure } from '../../http/failure.js'
import type { ListedTask, OtherTasks } from '../definition/define.js'
import { isFinalStatus, type StoredTask, type TaskChange } from '../../engine/task.js'
import { failureOf, shuttingDown } from '../run/failure.js'
import { fileKey, renewExternal } from '../record/outside.js'
import { newId } from '../../runtime/random-id.js'
import {
  detailsOf, dueCallback, externalNames, historyAfter, historyOfFinal, isIn, isTaskId, withFailure,
  type Details, type Scope,
} from '../record/details.js'
import { renewBlobs } from '../../stores/blob-rules.js'
import { isStoreUnavailable } from '../../stores/store.js'
import { limitOf } from './accept-task.js'
import { startFollowUp } from './follow-up.js'
import { MARGIN_MS, outsideFiles, type TaskCore } from './task-core.js'

/** Number of attempts at a task that others change at the same time. */
const MAX_TRIES = 20

/** Throws if a precondition of a request does not hold for the task as it is now. */
export type Condition = (task: StoredTask) => void

/** Cancels a task, whatever process runs it. `moved` is `false` if the task was final before. */
export async function cancelTask(
  core: TaskCore, id: string, of: Scope, check?: Condition,
): Promise<{ readonly task: StoredTask, readonly moved: boolean } | undefined> {
  let task = isTaskId(id) ? await core.engine.read(id) : undefined
  for (let tries = 0; tries < MAX_TRIES; tries++) {
    if (!task || !isIn(of, task)) return undefined
    if (isFinalStatus(task.status)) return { task, moved: false }
    check?.(task)
    const { callback, ...details } = detailsOf(task)
    const attempts = historyAfter(task, {
      status: 'cancelled', attempt: task.attempt, finishedAt: undefined,
    }, undefined)
    const kept = await outsideFiles(core, task, detailsOf(task), 'cancelled')
    const changed = await core.change(task, { version: task.version }, {
      status: 'cancelled', files: kept, keepMs: core.retentionMs(task.name, 'cancelled'),
      callbackMs: callback && 0,
      details: {
        ...details, ...attempts && { attempts },
        ...callback && { callback: dueCallback(callback) },
      },
    })
    if (changed.moved && changed.task) {
      await core.cleanUp(changed.task)
      await core.cancelWork(changed.task)
      return { task: changed.task, moved: true }
    }
    task = changed.task
  }
  throw changedMeanwhile()
}

interface RetryOptions {
  readonly isRequest?: boolean
  /** Key of a request, which retries a task once. */
  readonly key?: string | undefined
  /**
   * The task as it was listed. A task that was retried since then is a `conflict`. Default: any.
   */
  readonly listed?: ListedTask
}

/** Makes a failed or cancelled task wait for another run. */
export async function retryTask(
  core: TaskCore, id: string, of: Scope, { isRequest, key, listed }: RetryOptions = {},
): Promise<StoredTask | undefined> {
  let task = isTaskId(id) ? await core.engine.read(id) : undefined
  const { birth, round } = listed ?? { birth: task?.birth, round: task && detailsOf(task).round }
  for (let tries = 0; tries < MAX_TRIES; tries++) {
    if (!task || !isIn(of, task) || task.birth !== birth) return undefined
    // An earlier request with this key, or this very one, whose response was lost.
    if (key !== undefined && detailsOf(task).retryKey === key) return task
    requireRetryable(task)
    // Another retry has ended meanwhile. A delivery of the callback changes the version only.
    if (detailsOf(task).round !== round) throw conflict()
    const next = await renewedForRetry(core, task, of)
    if (core.isClosing) throw shuttingDown()
    await startFollowUp(core, task)
    const definition = core.definition(task.name)
    const changed = await core.change(task, { version: task.version }, {
      status: 'queued', details: { ...next, retryKey: key },
      limit: limitOf(definition ?? { name: task.name }, { caller: task.caller, isRequest }),
      keepMs: core.settings.pendingMs, callbackMs: null, pool: definition?.pool ?? task.pool,
    })
    if (changed.moved) return changed.task
    task = changed.task
  }
  throw changedMeanwhile()
}

/** Renews the data of a task outside of the engine. Returns its details for the next run. */
async function renewedForRetry(core: TaskCore, task: StoredTask, of: Scope): Promise<Details> {
  const { blobs: files = [], callback, inputs, failure, followUp: _, ...details } = detailsOf(task)
  const names = externalNames(details)
  const { pendingMs, blobs } = core.settings
  const keptMs = pendingMs + core.longestRetentionMs(task.name) + MARGIN_MS
  const isRenewed = names.length === 0 || await renewing(async () => (
    renewExternal(core.context, core.definition(task.name), { names, task }, keptMs)
  ))
  if (!isRenewed) {
    // Another retry may have used it meanwhile, and released it at the end.
    const now = await core.engine.read(task.id)
    if (now && isIn(of, now)) requireRetryable(now)
    throw httpError('gone', { message: 'The input of this task is no longer stored.' })
  }
  if (blobs) await renewing(() => renewBlobs(blobs, files.map((file) => fileKey(task.id, file)), keptMs))
  return {
    ...withFailure(details, undefined),
    round: newId(), failures: undefined, progress: undefined,
    isTransactional: undefined, returnedSince: undefined,
    attempts: historyOfFinal(task),
    // Without the input, which each write of progress would carry.
    ...failure && { failure: { runs: failure.runs } },
    // A question without an answer is asked again.
    ...inputs && {
      inputs: Object.fromEntries(Object.entries(inputs).filter(([, { answer }]) => answer !== undefined)),
    },
    ...files.length > 0 && { blobs: files },
    ...callback && { callback: { url: callback.url, state: 'waiting', attempts: 0 } },
  }
}

/** Calls `renew`. An unavailable store gets another error than an unavailable engine. */
async function renewing<T>(renew: () => Promise<T>): Promise<T> {
  try {
    return await renew()
  } catch (error) {
    if (!isStoreUnavailable(error)) throw error
    const { status, code, message, headers } = readFailure(error)
    throw new HttpError(status, code, { message, headers, cause: error })
  }
}

/** Deletes a final task with all that it owns. Resolves to `undefined` if there is no such task. */
export async function deleteTask(
  core: TaskCore, id: string, of: Scope, check?: Condition,
): Promise<'deleted' | 'unfinished' | undefined> {
  let task = isTaskId(id) ? await core.engine.read(id) : undefined
  for (let tries = 0; tries < MAX_TRIES; tries++) {
    if (!task || !isIn(of, task)) return undefined
    if (!isFinalStatus(task.status)) return 'unfinished'
    check?.(task)
    await startFollowUp(core, task)
    const now = await core.engine.delete(task, task.version)
    if (now === undefined) return 'deleted'
    task = now
  }
  throw changedMeanwhile()
}

/**
 * Changes a task that was listed, for `OtherTasks`. If another task has its id now, that task stays
 * unchanged.
 */
export async function changeListed(
  core: TaskCore, action: Parameters<OtherTasks['change']>[0], listed: ListedTask, key: string,
): Promise<string | undefined> {
  const { id, birth, round } = listed
  const isSame: Condition = (task) => { if (task.birth !== birth) throw httpError('task_not_found') }
  switch (action) {
    case 'retry':
      return await retryTask(core, id, 'all', { key, listed }) ? undefined : 'task_not_found'
    case 'cancel': {
      const { task } = await cancelTask(core, id, 'all', isSame) ?? {}
      if (task?.birth !== birth) return 'task_not_found'
      return task.status === 'cancelled' ? undefined : 'task_already_final'
    }
    case 'forget': {
      const deleted = await deleteTask(core, id, 'all', (task) => {
        isSame(task)
        if (detailsOf(task).round !== round) throw conflict()
      })
      // A task that is gone is deleted, perhaps by an earlier run of the caller.
      return deleted === 'unfinished' ? 'task_not_final' : undefined
    }
  }
}

/** Fails a task, or its callback, because it ends with this process. Never rejects. */
export async function abandonTask(core: TaskCore, task: StoredTask): Promise<void> {
  const { callback, ...rest } = detailsOf(task)
  const details: Details = {
    ...rest, ...callback && { callback: { ...callback, state: 'failed', fault: 'interrupted' } },
  }
  const change: TaskChange = isFinalStatus(task.status) ? { details, callbackMs: null } : {
    status: 'failed', details: withFailure(details, failureOf('task_interrupted')),
    keepMs: core.retentionMs(task.name, 'failed'),
  }
  try {
    await core.change(task, { version: task.version }, change)
  } catch (error) {
    core.report(error, task)
  }
}

function requireRetryable(task: StoredTask): void {
  if (!isFinalStatus(task.status)) throw httpError('task_not_final')
  if (task.status === 'completed') throw httpError('task_already_completed')
}

function conflict(): Error {
  return httpError('conflict', { message: 'Another request has changed this task meanwhile.' })
}

function changedMeanwhile(): Error {
  return httpError('conflict', { message: 'The task was changed meanwhile; try again.' })
}
