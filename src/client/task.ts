import { ClientError, isClientError } from './errors.js'
import { follow } from './follow.js'
import { isObject } from './json-object.js'
import { checkNames } from './option-names.js'
import type { Settings } from './options.js'
import {
  notStatus, readStatus, TaskFailedError, textOf, type CompletedTask, type TaskStatus,
} from './status.js'
import { ask } from './transport.js'

/** Options of a request for a task. */
export interface SignalOptions {
  /** Stops the request, not the task. */
  readonly signal?: AbortSignal
}

/** Options of `result`. */
export interface ResultOptions<R = unknown> {
  /**
   * Called with the first status and with each change, the final status included. If it throws,
   * `result` rejects with that error.
   */
  readonly onProgress?: (status: TaskStatus<R>) => void
  /** Stops waiting. The task continues. */
  readonly signal?: AbortSignal
}

/**
 * Plain JSON for `client.resume`. It identifies the task in another process or after a reload.
 */
export interface SavedTask {
  readonly taskId?: string
  /** Absolute URL of the status resource. */
  readonly statusUrl?: string
  /** The result, instead of `statusUrl`, if the server answered at once. */
  readonly result?: unknown
}

/** A task that a server accepted, or the result if the server answered at once. */
export interface TaskHandle<R = unknown> {
  /** Identifier of the task. `undefined` if the server answered at once. */
  readonly taskId: string | undefined
  /** Absolute URL of the status resource. `undefined` if the server answered at once. */
  readonly statusUrl: string | undefined
  /**
   * Waits until the task is final and resolves with its result. Uses server-sent events, else long
   * polls, else polls.
   *
   * @throws {TaskFailedError} The task failed or was cancelled.
   * @throws {ClientError} The status cannot be read.
   *
   * @example
   * const task = await api.submit('/reports', { year: 2025 })
   * await task.result({ onProgress: ({ progress }) => { console.log(progress?.done) } })
   */
  result(options?: ResultOptions<R>): Promise<R>
  /**
   * Yields the current status and each change, until the task is final.
   *
   * @example
   * const task = await api.submit('/reports', { year: 2025 })
   * for await (const { status, message } of task.changes()) console.log(status, message)
   */
  changes(options?: SignalOptions): AsyncIterable<TaskStatus<R>>
  /**
   * Reads the current status once.
   *
   * @example
   * const now = await api.resume({ statusUrl: '/tasks/1' }).status()
   * if (now.status === 'completed') console.log(now.result)
   */
  status(options?: SignalOptions): Promise<TaskStatus<R>>
  /**
   * Cancels the task and resolves with its status. If the task is final already, it stays as it is.
   *
   * @example
   * const { status } = await api.resume({ statusUrl: '/tasks/1' }).cancel()
   */
  cancel(options?: SignalOptions): Promise<TaskStatus<R>>
  /** Returns plain JSON for `client.resume`. `JSON.stringify` calls it. */
  toJSON(): SavedTask
}

const RESULT = { onProgress: 0, signal: 0 } satisfies Record<keyof ResultOptions, 0>
const SIGNAL = { signal: 0 } as const

/** Creates a handle for a task that has a status resource. */
export function remoteTask<R>(
  settings: Settings, url: URL, taskId: string | undefined,
): TaskHandle<R> {
  const request = async (method: string, signal?: AbortSignal): Promise<TaskStatus<R>> => {
    const call = { method, url, signal, headers: { accept: 'application/json' } }
    const { json, status } = await ask(settings, 'read', call)
    const task = readStatus<R>(json)
    if (task) return task
    // An answer to DELETE need not have a body.
    if (method === 'DELETE') return request('GET', signal)
    throw notStatus(status, json)
  }
  return {
    taskId, statusUrl: url.href,
    async result(options = {}) {
      checkNames('result', options, RESULT)
      const { onProgress, signal } = options
      for await (const task of follow<R>(settings, url, signal)) {
        onProgress?.(task)
        if (task.status === 'completed') return task.result
        if (task.status !== 'processing') throw new TaskFailedError(task)
      }
      throw new ClientError('bad_answer', 'The task has no end.')
    },
    changes(options = {}) {
      checkNames('changes', options, SIGNAL)
      return follow<R>(settings, url, options.signal)
    },
    async status(options = {}) {
      checkNames('status', options, SIGNAL)
      return request('GET', options.signal)
    },
    async cancel(options = {}) {
      checkNames('cancel', options, SIGNAL)
      const { signal } = options
      try {
        return await request('DELETE', signal)
      } catch (error) {
        if (isClientError(error) && error.status === 409) return request('GET', signal)
        throw error
      }
    },
    toJSON: () => ({ ...taskId !== undefined && { taskId }, statusUrl: url.href }),
  }
}

/** Creates a handle for a result that the server sent at once. */
export function directTask<R>(result: R): TaskHandle<R> {
  const body: Readonly<Record<string, unknown>> = isObject(result) ? result : {}
  const message = textOf(body['message'])
  const task: CompletedTask<R> = {
    status: 'completed', ...message !== undefined && { message }, result, body,
  }
  return {
    taskId: undefined, statusUrl: undefined,
    async result(options = {}) {
      checkNames('result', options, RESULT)
      options.onProgress?.(task)
      return result
    },
    async* changes(options = {}) {
      checkNames('changes', options, SIGNAL)
      yield task
    },
    async status(options = {}) {
      checkNames('status', options, SIGNAL)
      return task
    },
    async cancel(options = {}) {
      checkNames('cancel', options, SIGNAL)
      return task
    },
    toJSON: () => ({ result }),
  }
}
