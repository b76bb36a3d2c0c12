import type { MaybePromise } from '../wire/maybe-promise.js'
import type { TaskInput } from '../wire/task.js'
import { strongTag, Transfer, type Download, type DownloadOptions } from './download.js'
import { checkNames, ClientError, isClientError, isObject } from './errors.js'
import { follow } from './follow.js'
import { serverUrl, type CallOptions, type Settings } from './options.js'
import { ask, newKey } from './retry.js'
import type { Answer } from './send.js'
import {
  isFinal, notStatus, readStatus, stringOf, TaskFailedError, type CompletedTask, type TaskStatus,
} from './status.js'

type SignalOptions = Pick<CallOptions, 'signal'>

/** Options of `result`. */
export interface ResultOptions<R = unknown> extends SignalOptions {
  /** Called with the first status and each change, the final one included. */
  readonly onProgress?: (status: TaskStatus<R>) => void
  /**
   * Called when the task asks, with its questions by their keys. Sends the answers that it returns. If it
   * returns nothing, or somebody else was faster, goes on waiting. Default: somebody else answers.
   */
  readonly onInput?: (
    inputs: Readonly<Record<string, TaskInput>>,
  ) => MaybePromise<Readonly<Record<string, unknown>> | undefined>
}

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
   * Deletes the task with its result and its files, if it exists. Cancels it before, if it is not
   * final. `If-Match` protects a task that has changed since it was read.
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

/** Tries of `cancel` and `forget`. A task whose progress changes has another tag at each try. */
const CANCEL_TRIES = 4

export function remoteTask<R>(
  settings: Settings, url: URL, taskId: string | undefined,
): TaskHandle<R> {
  const send = (
    method: string, signal: AbortSignal | undefined, below = '', ifMatch?: string, body = '{}',
  ): Promise<Answer> => {
    const target = below === '' ? url : toUrlBelow(url, below)
    const call = { method, url: target, signal }
    const headers = { 'accept': 'application/json', 'if-match': ifMatch }
    if (method !== 'POST') return ask(settings, 'read', { ...call, headers })
    // The type of the body proves to the server that a page of another site may send it.
    const more = { 'content-type': 'application/json', 'idempotency-key': newKey() }
    return ask(settings, 'read', { ...call, headers: { ...headers, ...more }, body: () => body })
  }
  const read = async (
    signal: AbortSignal | undefined,
  ): Promise<{ readonly task: TaskStatus<R>, readonly etag: string | undefined }> => {
    const { json, status, headers } = await send('GET', signal)
    const task = readStatus<R>(json)
    if (task) return { task, etag: strongTag(headers) }
    throw notStatus(status, json)
  }
  /** Returns the status after a change. The response need not have a body. */
  const after = async (
    signal: AbortSignal | undefined, changing: Promise<Answer>, isDone: (error: ClientError) => boolean,
  ): Promise<TaskStatus<R>> => {
    try {
      const task = readStatus<R>((await changing).json)
      if (task) return task
    } catch (error) {
      if (!isClientError(error) || !isDone(error)) throw error
    }
    return (await read(signal)).task
  }
  /** Posts below the task. If the task has changed in this way already, reads it. */
  const post = (
    name: 'retry' | 'callback', signal: AbortSignal | undefined, isDone: (code: string) => boolean,
  ): Promise<TaskStatus<R>> => after(signal, send('POST', signal, name), ({ status, code }) => (
    status === 409 && isDone(code)
  ))
  const answer = (answers: object, signal: AbortSignal | undefined): Promise<TaskStatus<R>> => (
    after(signal, send('POST', signal, 'input', undefined, JSON.stringify(answers)), () => false)
  )
  return {
    taskId, statusUrl: url.href,
    async result(options = {}) {
      checkNames('result', options, ['onInput', 'onProgress', 'signal'])
      const { onInput, onProgress, signal } = options
      for await (const task of follow<R>(settings, url, signal)) {
        onProgress?.(task)
        if (task.status === 'completed') return task.result
        if (isFinal(task)) throw new TaskFailedError(task)
        if (task.status !== 'input_required' || !onInput) continue
        const answers = await onInput(task.inputs)
        if (answers) {
          await answer(answers, signal).catch((error: unknown) => {
            if (!hasStatus(error, 409)) throw error
          })
        }
      }
      throw new ClientError('bad_answer', 'The task has no end.')
    },
    changes: (options) => follow<R>(settings, url, signalOf('changes', options)),
    status: async (options) => (await read(signalOf('status', options))).task,
    async cancel(options) {
      const signal = signalOf('cancel', options)
      for (let tries = 1; ; tries++) {
        const { task, etag } = await read(signal)
        if (isFinal(task)) return task
        // A server may delete a task that has ended since, or that a repeated request has cancelled.
        const ifMatch = tries < CANCEL_TRIES ? etag : undefined
        try {
          // 428: the task has ended, and the server would only delete it.
          return await after(signal, send('DELETE', signal, '', ifMatch), ({ status }) => (
            status === 409 || status === 428
          ))
        } catch (error) {
          if (ifMatch === undefined || !hasStatus(error, 412)) throw error
        }
      }
    },
    retry: async (options) => post('retry', signalOf('retry', options), (code) => (
      code !== 'task_already_completed'
    )),
    answer: async (answers, options) => answer(answers, signalOf('answer', options)),
    redeliver: async (options) => post('callback', signalOf('redeliver', options), (code) => (
      code === 'callback_pending'
    )),
    async forget(options) {
      const signal = signalOf('forget', options)
      for (let tries = 1; ; tries++) {
        try {
          const { task, etag } = await read(signal)
          // Without a tag, a server cancels the task and deletes none.
          const ifMatch = isFinal(task) ? etag : undefined
          if ((await send('DELETE', signal, '', ifMatch)).status === 204) return
          if (tries === CANCEL_TRIES) {
            throw new ClientError('bad_answer', 'The server has not deleted the task.')
          }
        } catch (error) {
          if (hasStatus(error, 404)) return
          // It has ended or changed since it was read.
          const changed = hasStatus(error, 412) || hasStatus(error, 428)
          if (!changed || tries === CANCEL_TRIES) throw error
        }
      }
    },
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

function hasStatus(error: unknown, status: number): boolean {
  return isClientError(error) && error.status === status
}

function toUrlBelow(url: URL, path: string): URL {
  const below = new URL(url)
  below.pathname += `/${path}`
  return below
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
