import type { MaybePromise } from '../wire/maybe-promise.js'
import type { TaskInput } from '../wire/task.js'
import { strongTag } from './download.js'
import { ClientError, isClientError } from './errors.js'
import { follow } from './follow.js'
import type { CallOptions, Settings } from './options.js'
import { ask, newKey } from './retry.js'
import type { Answer } from './send.js'
import { isFinal, notStatus, readStatus, TaskFailedError, type TaskStatus } from './status.js'

export type SignalOptions = Pick<CallOptions, 'signal'>

/** Options of `result`. */
export interface ResultOptions<R = unknown> extends SignalOptions {
  /** Called with the first status and each change, the final one included. */
  readonly onProgress?: (status: TaskStatus<R>) => void
  /**
   * Called when the task asks, with its questions by their keys. Sends the answers that it returns.
   * Default: somebody else answers.
   *
   * If the function returns nothing, or another client has answered before, the call continues to
   * wait.
   */
  readonly onInput?: (
    inputs: Readonly<Record<string, TaskInput>>,
  ) => MaybePromise<Readonly<Record<string, unknown>> | undefined>
}

/** Tries of `cancel` and `forget`. A task whose progress changes has another tag at each try. */
const CANCEL_TRIES = 4

interface StatusRequest {
  readonly signal: AbortSignal | undefined
  /** Path below the status resource. Default: the resource itself. */
  readonly below?: string
  readonly ifMatch?: string | undefined
  /** Body of a POST. Default `{}`. */
  readonly body?: string
}

/** The status resource of one task. */
export class StatusResource<R> {
  constructor(private readonly settings: Settings, private readonly url: URL) {}

  async read(
    signal: AbortSignal | undefined,
  ): Promise<{ readonly task: TaskStatus<R>, readonly etag: string | undefined }> {
    const { json, status, headers } = await this.send('GET', { signal })
    const task = readStatus<R>(json)
    if (task) return { task, etag: strongTag(headers) }
    throw notStatus(status, json)
  }

  async result({ onInput, onProgress, signal }: ResultOptions<R>): Promise<R> {
    for await (const task of follow<R>(this.settings, this.url, signal)) {
      onProgress?.(task)
      if (task.status === 'completed') return task.result
      if (isFinal(task)) throw new TaskFailedError(task)
      if (task.status !== 'input_required' || !onInput) continue
      const answers = await onInput(task.inputs)
      if (answers) {
        await this.answer(answers, signal).catch((error: unknown) => {
          if (!hasStatus(error, 409)) throw error
        })
      }
    }
    throw new ClientError('bad_answer', 'The task has no end.')
  }

  /** Posts below the task. If the task has changed in this way already, reads it. */
  post(
    name: 'retry' | 'callback', signal: AbortSignal | undefined, isDone: (code: string) => boolean,
  ): Promise<TaskStatus<R>> {
    return this.after(signal, this.send('POST', { signal, below: name }), ({ status, code }) => (
      status === 409 && isDone(code)
    ))
  }

  answer(answers: object, signal: AbortSignal | undefined): Promise<TaskStatus<R>> {
    const sent = this.send('POST', { signal, below: 'input', body: JSON.stringify(answers) })
    return this.after(signal, sent, () => false)
  }

  async cancel(signal: AbortSignal | undefined): Promise<TaskStatus<R>> {
    for (let tries = 1; ; tries++) {
      const { task, etag } = await this.read(signal)
      if (isFinal(task)) return task
      // A server may delete a task that has ended since, or that a repeated request has cancelled.
      const ifMatch = tries < CANCEL_TRIES ? etag : undefined
      try {
        // 428: the task has ended, and the server would only delete it.
        return await this.after(signal, this.send('DELETE', { signal, ifMatch }), ({ status }) => (
          status === 409 || status === 428
        ))
      } catch (error) {
        if (ifMatch === undefined || !hasStatus(error, 412)) throw error
      }
    }
  }

  async forget(signal: AbortSignal | undefined): Promise<void> {
    for (let tries = 1; ; tries++) {
      try {
        const { task, etag } = await this.read(signal)
        // Without a tag, a server cancels the task and deletes none.
        const ifMatch = isFinal(task) ? etag : undefined
        if ((await this.send('DELETE', { signal, ifMatch })).status === 204) return
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
  }

  private send(
    method: string, { signal, below = '', ifMatch, body = '{}' }: StatusRequest,
  ): Promise<Answer> {
    const url = below === '' ? this.url : toUrlBelow(this.url, below)
    const call = { method, url, signal }
    const headers = { 'accept': 'application/json', 'if-match': ifMatch }
    if (method !== 'POST') return ask(this.settings, 'read', { ...call, headers })
    // The type of the body proves to the server that a page of another site may send it.
    const more = { 'content-type': 'application/json', 'idempotency-key': newKey() }
    return ask(this.settings, 'read', { ...call, headers: { ...headers, ...more }, body: () => body })
  }

  /** Returns the status after a change. The response need not have a body. */
  private async after(
    signal: AbortSignal | undefined, changing: Promise<Answer>, isDone: (error: ClientError) => boolean,
  ): Promise<TaskStatus<R>> {
    try {
      const task = readStatus<R>((await changing).json)
      if (task) return task
    } catch (error) {
      if (!isClientError(error) || !isDone(error)) throw error
    }
    return (await this.read(signal)).task
  }
}

function hasStatus(error: unknown, status: number): boolean {
  return isClientError(error) && error.status === status
}

export function toUrlBelow(url: URL, path: string): URL {
  const below = new URL(url)
  below.pathname += `/${path}`
  return below
}
