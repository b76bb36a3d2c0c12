import { ClientError, isClientError, TaskFailedError } from './errors.js'
import { isObject } from './json-object.js'
import { follow } from './follow.js'
import { checkNames } from './option-names.js'
import type { Settings } from './options.js'
import { isEnded, readStatus, type TaskStatus } from './status.js'
import { ask } from './transport.js'

/** Options of a request for a task. */
export interface SignalOptions {
  /** Stops the request, not the task. */
  readonly signal?: AbortSignal
}

/** How a result is waited for. */
export interface ResultOptions<R = unknown> {
  /**
   * Is called with each status that differs from the one before, the last one too. What it throws
   * rejects `result`.
   */
  readonly onProgress?: (status: TaskStatus<R>) => void
  /** Ends the waiting, not the task. */
  readonly signal?: AbortSignal
}

/** What is enough to find a task again, in another process or after a reload. Plain JSON. */
export interface SavedTask {
  readonly id?: string
  /** Absolute. */
  readonly statusUrl?: string
  /** In place of `statusUrl`: the server answered at once. */
  readonly result?: unknown
}

/** Work that a server has taken in; or its result, where the server gave it at once. */
export interface TaskHandle<R = unknown> {
  /** The server's identifier; `undefined` when it answered at once. */
  readonly id: string | undefined
  /** The absolute URL of the status resource; `undefined` when it answered at once. */
  readonly statusUrl: string | undefined
  /**
   * Waits for the end by server-sent events, long polls or polls, whichever the server has. Rejects
   * with a `TaskFailedError` when the task failed or was cancelled, and with a `ClientError` when
   * its status can't be had.
   */
  result(options?: ResultOptions<R>): Promise<R>
  /** The status at once and after every change, until the task has ended. */
  changes(options?: SignalOptions): AsyncIterable<TaskStatus<R>>
  /** The status now. */
  status(options?: SignalOptions): Promise<TaskStatus<R>>
  /**
   * Asks the server to stop the work, and gives the status then: a task that had ended already
   * stays as it was.
   */
  cancel(options?: SignalOptions): Promise<TaskStatus<R>>
  /** For `JSON.stringify`; `client.resume` takes it. */
  toJSON(): SavedTask
}

const RESULT = { onProgress: 0, signal: 0 } satisfies Record<keyof ResultOptions, 0>
const SIGNAL = { signal: 0 } as const

/** A handle for a task that has a status resource. */
export function remoteTask<R>(settings: Settings, url: URL, id: string | undefined): TaskHandle<R> {
  const status = async (method: string, signal?: AbortSignal): Promise<TaskStatus<R>> => {
    const { json, status: code } = await ask(settings, 'read', { method, url, signal, headers: { accept: 'application/json' } })
    const now = readStatus<R>(json)
    if (now) return now
    if (method === 'DELETE') return status('GET', signal)
    throw new ClientError('bad_answer', 'The answer is not the status of a task.', { status: code, body: json })
  }
  return {
    id, statusUrl: url.href,
    async result(options = {}) {
      checkNames('result', options, RESULT)
      const { onProgress, signal } = options
      for await (const now of follow<R>(settings, url, signal)) {
        onProgress?.(now)
        if (isEnded(now)) return resultOf(now)
      }
      throw new ClientError('bad_answer', 'The task has no end.')
    },
    changes(options = {}) {
      checkNames('changes', options, SIGNAL)
      return follow<R>(settings, url, options.signal)
    },
    async status(options = {}) {
      checkNames('status', options, SIGNAL)
      return status('GET', options.signal)
    },
    async cancel(options = {}) {
      checkNames('cancel', options, SIGNAL)
      const { signal } = options
      try {
        return await status('DELETE', signal)
      } catch (error) {
        if (isClientError(error) && error.status === 409) return status('GET', signal)
        throw error
      }
    },
    toJSON: () => ({ ...id !== undefined && { id }, statusUrl: url.href }),
  }
}

/** A handle for work that the server has answered at once. */
export function directTask<R>(result: R): TaskHandle<R> {
  const body: Readonly<Record<string, unknown>> = isObject(result) ? result : {}
  const message = typeof body['message'] === 'string' ? body['message'] : undefined
  const status: TaskStatus<R> = { id: undefined, state: 'completed', message, progress: undefined, result, error: undefined, body }
  return {
    id: undefined, statusUrl: undefined,
    async result(options = {}) {
      checkNames('result', options, RESULT)
      options.onProgress?.(status)
      return result
    },
    async* changes(options = {}) {
      checkNames('changes', options, SIGNAL)
      yield status
    },
    async status(options = {}) {
      checkNames('status', options, SIGNAL)
      return status
    },
    async cancel(options = {}) {
      checkNames('cancel', options, SIGNAL)
      return status
    },
    toJSON: () => ({ result }),
  }
}

function resultOf<R>(status: TaskStatus<R>): R {
  if (status.state !== 'completed') throw new TaskFailedError(status)
  return status.result as R
}
