import { randomUUID } from 'node:crypto'
import type { Handler } from '../http/exchange.js'
import type { MaybePromise } from '../runtime/maybe-promise.js'
import { duration, readOptions, value, whole, type OptionTable } from '../runtime/options.js'
import type { Store } from '../stores/store.js'
import type { ExternalResource } from '../tasks/definition/external-resource.js'
import type { JsonSafe } from '../tasks/definition/json-values.js'
import type { TaskContext } from '../tasks/definition/run-context.js'
import type { TaskEndpoints } from '../tasks/http/endpoints.js'
import { serviceOf } from '../tasks/tasks.js'
import { createEndpoint } from './endpoint.js'
import { PartialWriter, removeAll, resultText } from './partial-log.js'

/** Options of `partialResults`. */
export interface PartialResultsOptions {
  /** The store of `createTasks`: that of `memory()`, `redis()` or `postgres()`. */
  readonly store: Store
  /**
   * Time after which a partial result is dropped, even if its task is still there, in milliseconds.
   * At least `retentionMs` of the tasks. Choose more than that and the longest run together.
   * @default 604_800_000 (a week)
   */
  readonly keepMs?: number
  /** Number of partial results of one task, beyond which the oldest are dropped. @default 10_000 */
  readonly maxResults?: number
  /** Their size in bytes, beyond which the oldest are dropped. @default 1_048_576 */
  readonly maxBytes?: number
}

/** The part of the context of `run` that emits. `T` is the type of one partial result. */
export interface Emitting<T> {
  /**
   * Appends a partial result, such as a token, a line of a log or a row. Clients read it soon after.
   * Resolves at once, unless much waits to be written. All of it is stored when `run` has ended.
   *
   * A synchronous request has no partial results: `emit` checks the value and keeps nothing.
   *
   * @throws {TypeError} the value is not JSON, or has more than 64 KiB
   * @throws {HttpError} 409 `attempt_replaced`: a later run of the task has begun
   * @throws {StoreUnavailableError} the store did not respond for five minutes
   */
  readonly emit: (result: T & JsonSafe<T>) => Promise<void>
  /** Returns what earlier runs of this task and this one have emitted since `clear`. */
  readonly emitted: () => Promise<Emitted<T>>
  /** Drops all partial results, for a run that starts over. Readers are told by a gap. */
  readonly clear: () => Promise<void>
}

/** The partial results that the runs of a task have emitted so far. */
export interface Emitted<T> {
  /** Their number, with those that were dropped. 0 if the store has evicted all of it. */
  readonly count: number
  /** The newest of them that are still stored, in order and without a gap. */
  readonly results: readonly T[]
}

/** The partial results of the tasks of a kind. Made by `partialResults`. */
export interface PartialResults<T> {
  /** Wraps the function `run` of a definition, which gets `emit` in its context. */
  readonly run: <I, R, C = unknown, P = unknown>(
    work: (input: I, context: TaskContext<C, P> & Emitting<T>) => MaybePromise<R>,
  ) => (input: I, context: TaskContext<C, P>) => Promise<R>
  /** Deletes the partial results with their task: the option `external` of the definition. */
  readonly external: ExternalResource<unknown>
  /**
   * Creates the handler of GET and HEAD of `{status}/partial-results`, for the owner of the task.
   * `Accept` chooses the form:
   *
   * - `text/event-stream`: an event for each, with its number as the id, until the task is final; then
   * the event `end`. `EventSource` continues by `Last-Event-ID`. The event `gap` has the first number
   * that is left, if others were dropped.
   * - `application/x-ndjson`: the same as lines: `{ id, value }`, `{ gap }`, `{ end }`
   * - `application/json`: what there is now, `{ status, last, results }`
   *
   * `?after=` is the number of the last one that the client has. `Last-Event-ID` takes precedence.
   *
   * @throws {TypeError} `keepMs` is less than `retentionMs` of one of these tasks
   *
   * @example
   * import { partialResults } from 'longhaul/partial'
   *
   * const words = partialResults<string>({ store })
   * const { status } = endpoints
   * router({ 'GET|HEAD|DELETE /tasks/{id}': status, 'GET|HEAD /tasks/{id}/partial-results': words.endpoint(endpoints) })
   */
  readonly endpoint: <C>(endpoints: Pick<TaskEndpoints<C>, 'find' | 'status' | 'tasks'>) => Handler<C>
}

const OPTIONS = {
  store: value('the store of memory(), redis() or postgres()', (given) => (
    typeof (given as Store | null)?.watch === 'function'
  ), { required: true }),
  keepMs: duration({ min: 1000, default: 7 * 86_400_000 }),
  maxResults: whole({ min: 10, default: 10_000 }),
  maxBytes: whole({ min: 65_536, default: 1_048_576 }),
} satisfies OptionTable<PartialResultsOptions>

/**
 * Lets tasks append partial results that clients read while the task runs: from any process, in
 * order, each once, and from the last one that they have. They are in the store, and are deleted with
 * the task. Later runs of a task go on after those of earlier ones, which can append none any more.
 *
 * @example
 * import { partialResults } from 'longhaul/partial'
 *
 * const { engine, store } = memory()
 * const tokens = partialResults<string>({ store })
 * const answer = defineTask({
 *   name: 'answer',
 *   external: tokens.external,
 *   run: tokens.run(async ({ words }: { words: string[] }, { emit, emitted }) => {
 *     const { count } = await emitted()
 *     for (const word of words.slice(count)) await emit(word)
 *     return words.join(' ')
 *   }),
 * })
 *
 * @throws {TypeError} an option is unknown or makes no sense
 */
export function partialResults<T = unknown>(options: PartialResultsOptions): PartialResults<T> {
  const { store, ...limits } = readOptions('partialResults', options, OPTIONS)
  const external: ExternalResource<unknown> = {
    // A name of its own for each task: the id of a deleted task may be used again, by somebody else.
    of: () => randomUUID(), release: () => undefined, remove: (name) => removeAll(store, name),
  }
  return {
    external,
    run: (work) => async (input, context) => {
      const { taskId, external: name, attempt, owner, signal } = context
      if (taskId === undefined) {
        const emit = async (result: T): Promise<void> => { resultText(result) }
        const emitted = async (): Promise<Emitted<T>> => ({ count: 0, results: [] })
        return work(input, { ...context, emit, emitted, clear: async () => undefined })
      }
      if (name === undefined) throw new TypeError('partialResults: the definition needs its `external`, too')
      const writer = await PartialWriter.open(store, { name, attempt, owner, signal }, limits)
      try {
        const result = await work(input, {
          ...context,
          emit: (value) => writer.emit(resultText(value)),
          emitted: async () => {
            const { count, texts } = await writer.stored()
            return { count, results: texts.map((text) => JSON.parse(text) as T) }
          },
          clear: () => writer.clear(),
        })
        await writer.settled()
        return result
      } catch (error) {
        await writer.settled().catch(() => undefined)
        throw error
      }
    },
    endpoint: (endpoints) => {
      const { core, settings } = serviceOf(endpoints.tasks, 'partialResults')
      for (const { name, external: owned } of settings.definitions) {
        if (owned !== external || core.retentionMs(name) <= limits.keepMs) continue
        throw new TypeError(`partialResults: keepMs must be at least retentionMs of the task ${name}`)
      }
      return createEndpoint(store, endpoints)
    },
  }
}
