import { Transfer, type Download, type DownloadOptions } from './download.js'
import { checkNames, isObject } from './errors.js'
import { follow } from './follow.js'
import { serverUrl, type Settings } from './options.js'
import { StatusResource, toUrlBelow, type ResultOptions, type SignalOptions } from './status-resource.js'
import { stringOf, type CompletedTask, type TaskStatus } from './status.js'

/** Plain JSON for `client.resume`. It identifies the task in another process or after a reload. */
export interface SavedTask {
  readonly taskId?: string
  /** Absolute URL of the status resource. */
  readonly statusUrl?: string
  /** The result, instead of `statusUrl`, if the server responded at once. */
  readonly result?: unknown
}

/** A task that a server accepted, or the result if the server responded at once. */
export interface TaskHandle<R = unknown> {
  /** Identifier of the task. `undefined` if the server responded at once. */
  readonly taskId: string | undefined
  /** Absolute URL of the status resource. `undefined` if the server responded at once. */
  readonly statusUrl: string | undefined
  /**
   * Waits for the result by server-sent events, else long polls, else polls.
   * @throws {TaskFailedError} The task failed or was cancelled.
   * @throws {ClientError} The status cannot be read.
   * @example
   * const task = await api.submit('/reports', { year: 2025 })
   * await task.result({ onProgress: ({ progress }) => { console.log(progress?.done) } })
   */
  result(options?: ResultOptions<R>): Promise<R>
  /**
   * Yields the current status and each change, until the task is final.
   * @example
   * const task = await api.submit('/reports', { year: 2025 })
   * for await (const { status, message } of task.changes()) console.log(status, message)
   */
  changes(options?: SignalOptions): AsyncIterable<TaskStatus<R>>
  /**
   * Reads the current status once.
   * @example
   * const now = await api.resume({ statusUrl: '/tasks/1' }).status()
   * if (now.status === 'completed') console.log(now.result)
   */
  status(options?: SignalOptions): Promise<TaskStatus<R>>
  /**
   * Cancels the task, unless it is final, and resolves with its status. If it changes during each
   * of three tries, the last try has no condition.
   * @example
   * const { status } = await api.resume({ statusUrl: '/tasks/1' }).cancel()
   */
  cancel(options?: SignalOptions): Promise<TaskStatus<R>>
  /**
   * Runs a failed or cancelled task again, with the same input, and resolves with its status. A
   * task that is not final stays as it is.
   * @throws {ClientError} 409 `task_already_completed`; 404 or 405: not supported by the server.
   * @example
   * const task = api.resume({ statusUrl: '/tasks/1' })
   * const { status } = await task.retry()
   * if (status === 'processing') console.log(await task.result())
   */
  retry(options?: SignalOptions): Promise<TaskStatus<R>>
  /**
   * Deletes the task with its result and its files, if it exists. If the task is not final, cancels
   * it first. `If-Match` protects a task that has changed since it was read.
   * @throws {ClientError} 409 `task_already_final`: the server does not delete tasks.
   * @example
   * await api.resume({ statusUrl: '/tasks/1' }).forget()
   */
  forget(options?: SignalOptions): Promise<void>
  /**
   * Answers questions of the task, by their keys, and resolves with its status. Can be repeated with equal
   * answers.
   * @throws {ClientError} 400 `invalid_input`; 409 `already_answered` or `input_timed_out`; 422
   * `unknown_input`.
   * @example
   * const task = api.resume({ statusUrl: '/tasks/1' })
   * await task.answer({ approve: { send: true } })
   */
  answer(
    answers: Readonly<Record<string, unknown>>, options?: SignalOptions,
  ): Promise<TaskStatus<R>>
  /**
   * Makes the server send the callback of a final task again, and resolves with its status.
   * @throws {ClientError} 409 `task_not_final` or `no_callback`.
   * @example
   * const { callback } = await api.resume({ statusUrl: '/tasks/1' }).redeliver()
   */
  redeliver(options?: SignalOptions): Promise<TaskStatus<R>>
  /**
   * Downloads a file of the task, by its name or its entry in `files`, and verifies its digest.
   * @example
   * const task = api.resume({ statusUrl: '/tasks/1' })
   * const blob = await task.file('users.ndjson').blob()
   */
  file(file: string | { readonly url: string }, options?: DownloadOptions): Download
  /** Returns plain JSON for `client.resume`. `JSON.stringify` calls it. */
  toJSON(): SavedTask
}

/** Returns the handle of a task that a server accepted. */
export function remoteTask<R>(
  settings: Settings, url: URL, taskId: string | undefined,
): TaskHandle<R> {
  const resource = new StatusResource<R>(settings, url)
  return {
    taskId, statusUrl: url.href,
    async result(options = {}) {
      checkNames('result', options, ['onInput', 'onProgress', 'signal'])
      return resource.result(options)
    },
    changes: (options) => follow<R>(settings, url, signalOf('changes', options)),
    status: async (options) => (await resource.read(signalOf('status', options))).task,
    cancel: async (options) => resource.cancel(signalOf('cancel', options)),
    retry: async (options) => resource.post('retry', signalOf('retry', options), (code) => (
      code !== 'task_already_completed'
    )),
    answer: async (answers, options) => resource.answer(answers, signalOf('answer', options)),
    redeliver: async (options) => resource.post('callback', signalOf('redeliver', options), (code) => (
      code === 'callback_pending'
    )),
    forget: async (options) => resource.forget(signalOf('forget', options)),
    file(file, options = {}) {
      const target = typeof file === 'string'
        ? toUrlBelow(url, `files/${encodeURIComponent(file)}`)
        : serverUrl(file.url, url)
      const headers = { 'want-repr-digest': 'sha-256=1', ...options.headers }
      return new Transfer(settings, target, { ...options, headers }, settings.base.origin)
    },
    toJSON: () => ({ ...taskId !== undefined && { taskId }, statusUrl: url.href }),
  }
}

function signalOf(method: string, options: SignalOptions = {}): AbortSignal | undefined {
  checkNames(method, options, ['signal'])
  return options.signal
}

export function directTask<R>(result: R): TaskHandle<R> {
  const body: Readonly<Record<string, unknown>> = isObject(result) ? result : {}
  const message = stringOf(body['message'])
  const task: CompletedTask<R> = {
    status: 'completed', ...message !== undefined && { message }, result, body,
  }
  const unchanged = (method: string) => async (options?: SignalOptions) => {
    signalOf(method, options)
    return task
  }
  return {
    taskId: undefined, statusUrl: undefined,
    async result(options = {}) {
      checkNames('result', options, ['onInput', 'onProgress', 'signal'])
      options.onProgress?.(task)
      return result
    },
    async* changes(options) {
      yield unchanged('changes')(options)
    },
    status: unchanged('status'), cancel: unchanged('cancel'), retry: unchanged('retry'),
    redeliver: unchanged('redeliver'), answer: async (_, options) => unchanged('answer')(options),
    forget: async () => undefined,
    file() {
      throw new TypeError('file: the server responded at once, so there is no task with files')
    },
    toJSON: () => ({ result }),
  }
}
