import type { PartialResult } from '../wire/partial.js'
import type { TaskFailure, TaskInput, TaskProgress } from '../wire/task.js'
import type { Client } from './client.js'
import { checkNames, checkWhole, unchecked, type ClientError } from './errors.js'
import { readPartialResults } from './partial-results.js'
import { canRetry, jitter, pause } from './retry.js'
import { isFinal, stringOf, type TaskStatus } from './status.js'
import type { SavedTask, TaskHandle } from './task.js'

/** Options of `watchTask`. */
export interface WatchTaskOptions {
  /** Reads partial results, which the server has at `{status}/partial-results`. Default: false. */
  readonly partialResults?: boolean
  /** Number of partial results in a snapshot. Older ones are dropped. Default: 10 000. */
  readonly maxResults?: number
}

/** A task as a page shows it. Frozen. A change creates another object. */
export interface WatchedTask<R = unknown, T = unknown> {
  /** `undefined` until the server has sent the first status. */
  readonly status: TaskStatus['status'] | undefined
  readonly progress: TaskProgress | undefined
  /** The questions that have no answer, by their keys. Empty if the task does not ask. */
  readonly inputs: Readonly<Record<string, TaskInput>>
  /** Partial results in their order. Those before a gap are removed. */
  readonly partialResults: readonly PartialResult<T>[]
  /** True if `partialResults` does not have all: the task, or `maxResults`, has dropped some. */
  readonly hasGap: boolean
  /** Result of a completed task. */
  readonly result: R | undefined
  /**
   * Error of a failed task, or else of a request: the server is not reachable, or has rejected an
   * answer. Codes as of `ClientError`; `client_error` for other errors. `undefined` after the next success.
   */
  readonly error: TaskFailure | undefined
  /** The last status as the server has sent it, with all other properties. */
  readonly task: TaskStatus<R> | undefined
}

/**
 * A task for a page. The functions need no `this`, do not throw, and fit `useSyncExternalStore` of React.
 */
export interface TaskWatch<R = unknown, T = unknown> {
  /**
   * Calls the function after each change, until the returned function is called. The first
   * subscriber opens the connection. When the last subscriber leaves, the connection is closed.
   */
  readonly subscribe: (listener: () => void) => () => void
  /** Returns the same object until the next change. */
  readonly getSnapshot: () => WatchedTask<R, T>
  /** Answers a question. Resolves with false if that failed; the snapshot then has the error. */
  readonly answer: (key: string, value: unknown) => Promise<boolean>
  /** Ends all subscriptions for good. The task continues. */
  readonly close: () => void
}

/**
 * Watches a task for a web page: status, progress, questions, partial results and result. Sends no
 * request before the first subscriber.
 *
 * After a broken connection it continues as `changes` and `readPartialResults` do. If they give up
 * because the server is not reachable, it tries again twice a minute. Other errors end it until the
 * next first subscriber.
 *
 * @throws {TypeError} An option is unknown or invalid.
 * @example
 * const watch = watchTask(api, await api.submit('/reports', { year: 2025 }))
 * const stop = watch.subscribe(() => {
 *   const { status, progress, error } = watch.getSnapshot()
 *   console.log(status, progress?.done, progress?.total, error?.message)
 * })
 */
export function watchTask<R = unknown, T = unknown>(
  client: Pick<Client, 'resume' | 'records'>, task: TaskHandle<R> | SavedTask | string,
  options: WatchTaskOptions = {},
): TaskWatch<R, T> {
  checkNames('watchTask', options, ['partialResults', 'maxResults'])
  checkWhole('watchTask', { maxResults: options.maxResults ?? 1 })
  const isHandle = typeof task === 'object' && 'changes' in task
  return new Watch<R, T>(client, isHandle ? task : client.resume<R>(task), options)
}

/** Delay before a connection that the client has given up is tried again, in milliseconds. */
const AGAIN_MS = 30_000
const NO_INPUTS = Object.freeze({})

class Watch<R, T> implements TaskWatch<R, T> {
  private task: TaskStatus<R> | undefined
  private taskText = ''
  private results: readonly PartialResult<T>[] = Object.freeze([])
  /** Results that the snapshot does not have yet. */
  private newResults: PartialResult<T>[] = []
  private lastId: string | undefined
  private hasGap = false
  private readonly errors: { status?: TaskFailure, answer?: TaskFailure, results?: TaskFailure } = {}
  private readonly listeners = new Set<() => void>()
  private connection: AbortController | undefined
  private isOver = false
  private timer: ReturnType<typeof setTimeout> | undefined
  private snapshot = this.toSnapshot()

  constructor(
    private readonly client: Pick<Client, 'records'>, private readonly handle: TaskHandle<R>,
    private readonly options: WatchTaskOptions,
  ) {}

  readonly subscribe = (listener: () => void): (() => void) => {
    // The same function may subscribe twice.
    const own = () => { listener() }
    this.listeners.add(own)
    if (!this.connection && !this.isOver) this.connect()
    return () => {
      if (this.listeners.delete(own) && this.listeners.size === 0) this.disconnect()
    }
  }

  readonly getSnapshot = (): WatchedTask<R, T> => this.snapshot

  readonly answer = async (key: string, value: unknown): Promise<boolean> => {
    try {
      await this.handle.answer({ [key]: value })
    } catch (error) {
      this.fail('answer', error)
      return false
    }
    this.succeed('answer')
    return true
  }

  readonly close = (): void => {
    this.isOver = true
    this.listeners.clear()
    this.disconnect()
  }

  private connect(): void {
    this.connection = new AbortController()
    const { signal } = this.connection
    const results = this.options.partialResults === true
      ? this.retrying('results', signal, () => this.readResults(signal))
      : Promise.resolve()
    void this.retrying('status', signal, () => this.readStatus(signal, results))
  }

  private disconnect(): void {
    this.connection?.abort()
    this.connection = undefined
  }

  /** Never rejects. */
  private async retrying(
    source: 'status' | 'results', signal: AbortSignal, read: () => Promise<void>,
  ): Promise<void> {
    while (!signal.aborted) {
      try {
        await read()
        return
      } catch (error) {
        if (signal.aborted) return
        this.fail(source, error)
        if (!canRetry(error, 'read')) return
        const ms = Math.max(jitter(AGAIN_MS), (error.retryAfter ?? 0) * 1000)
        await pause(ms, signal).catch(() => undefined)
      }
    }
  }

  private async readStatus(signal: AbortSignal, results: Promise<void>): Promise<void> {
    for await (const task of this.handle.changes({ signal })) {
      // A page that shows the end has all partial results.
      if (isFinal(task)) await results
      if (signal.aborted) return
      this.succeed('status')
      const text = JSON.stringify(task.body)
      if (text === this.taskText) continue
      this.taskText = text
      this.task = task
      this.succeed('answer')
      this.changed()
    }
    this.isOver = true
  }

  private async readResults(signal: AbortSignal): Promise<void> {
    const onGap = () => {
      if (!signal.aborted) this.restart()
    }
    const from = { signal, onGap, ...this.lastId !== undefined && { after: this.lastId } }
    for await (const result of readPartialResults<T>(this.client, this.handle, from)) {
      if (signal.aborted) return
      this.succeed('results')
      this.lastId = result.id
      this.newResults.push(result)
      this.changed()
    }
    this.succeed('results')
  }

  private restart(): void {
    this.hasGap = true
    this.results = Object.freeze([])
    this.newResults = []
    this.changed()
  }

  private fail(source: keyof typeof this.errors, error: unknown): void {
    this.errors[source] = toFailure(error)
    this.changed()
  }

  private succeed(source: keyof typeof this.errors): void {
    if (!this.errors[source]) return
    delete this.errors[source]
    this.changed()
  }

  /** Calls the listeners soon, once for all changes that arrive together. */
  private changed(): void {
    this.timer ??= setTimeout(() => {
      this.timer = undefined
      this.snapshot = this.toSnapshot()
      for (const listener of this.listeners) {
        // An error of a listener is reported as one of the page, and the others are called.
        queueMicrotask(() => {
          if (this.listeners.has(listener)) listener()
        })
      }
    })
  }

  private toSnapshot(): WatchedTask<R, T> {
    if (this.newResults.length > 0) this.addResults()
    const { task, results, hasGap, errors } = this
    return Object.freeze({
      status: task?.status, progress: task?.progress,
      inputs: task?.status === 'input_required' ? task.inputs : NO_INPUTS,
      partialResults: results, hasGap, result: task?.result,
      error: task?.error ?? errors.status ?? errors.answer ?? errors.results, task,
    })
  }

  private addResults(): void {
    const all = [...this.results, ...this.newResults]
    const { maxResults = 10_000 } = this.options
    if (all.length > maxResults) this.hasGap = true
    this.results = Object.freeze(all.slice(-maxResults))
    this.newResults = []
  }
}

function toFailure(error: unknown): TaskFailure {
  const { code, message, details } = unchecked<ClientError>(error)
  return {
    code: stringOf(code) ?? 'client_error', message: stringOf(message) ?? String(error),
    ...Array.isArray(details) && { details: details as ClientError['details'] & object },
  }
}
