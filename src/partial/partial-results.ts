import type { Handler } from '../http/exchange.js'
import type { MaybePromise } from '../runtime/maybe-promise.js'
import { duration, hasMethod, readOptions, value, whole, type OptionTable } from '../runtime/options.js'
import type { Store } from '../stores/store.js'
import type { ExternalResource } from '../tasks/definition/external-resource.js'
import type { TaskContext } from '../tasks/definition/run-context.js'
import type { TaskEndpoints } from '../tasks/http/endpoints.js'
import { coreOf } from '../tasks/tasks.js'
import { createEndpoint } from './endpoint.js'
import { runEmitting, type Emitting } from './emitting.js'
import { newResource, removeAll } from './partial-log.js'

/** Options of `partialResults`. */
export interface PartialResultsOptions {
  /** The store of `createTasks`: that of `memory()`, `redis()` or `postgres()`. */
  readonly store: Store
  /**
   * Time after which a partial result is dropped, even if its task is still there, in milliseconds.
   * Choose more than `retentionMs` (or `failedRetentionMs`) of the tasks and the longest run
   * together.
   * @default 604_800_000 (a week)
   */
  readonly keepMs?: number
  /** Number of partial results of one task, beyond which the oldest are dropped. At most a million. @default 10_000 */
  readonly maxResults?: number
  /**
   * Size of the partial results of one task in bytes, beyond which the oldest are dropped. From 64
   * KiB to 16 MiB.
   * @default 1_048_576
   */
  readonly maxBytes?: number
  /**
   * Time for which partial results are gathered after a write to the store, in milliseconds, at
   * most 10 seconds. A longer time makes fewer writes, and readers get the results later.
   *
   * The first result, enough for a whole part, and the end of `run` do not wait.
   * @default 20
   */
  readonly gatherMs?: number
}

/**
 * The option `external` of a definition with partial results. `of` has no parameter, because the
 * compiler would otherwise infer `unknown` for the input of `run`, if `strictFunctionTypes` is off.
 */
export interface PartialResultsResource extends ExternalResource<unknown> {
  readonly of: () => string
}

/** The partial results of the tasks of a kind. Made by `partialResults`. */
export interface PartialResults<T> {
  /** Wraps the function `run` of a definition, which gets `emit` in its context. */
  readonly run: <I, R, C = unknown, P = unknown>(
    work: (input: I, context: TaskContext<C, P> & Emitting<T>) => MaybePromise<R>,
  ) => (input: I, context: TaskContext<C, P>) => Promise<R>
  /** Gives each task its partial results, and deletes them with it: the option `external` of the definition. */
  readonly external: PartialResultsResource
  /**
   * Creates the handler of GET and HEAD of `{status}/partial-results`, for the owner of the task.
   * `Accept` chooses the form:
   *
   * - `text/event-stream`: an event with an id for each, until the task is final; then the event
   *   `end`. `EventSource` continues by `Last-Event-ID`. The event `gap` says that results before
   *   the next one are missing, because they were dropped.
   * - `application/x-ndjson` or another type of NDJSON: the same as lines: `{ id, value }`, `{ id, gap }`, `{ id, end }`
   * - `application/json`: what there is now, `{ status, last, results }`, and `gap` if some are missing
   *
   * `?after=` is the id of the last one that the client has. `Last-Event-ID` takes precedence.
   *
   * @throws {TypeError} `createTasks` has another store; a definition lacks `external`; `keepMs` is less
   * than its `retentionMs` or `failedRetentionMs`
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
  store: value('the store of memory(), redis() or postgres()', hasMethod('watch'), { required: true }),
  keepMs: duration({ min: 1000, default: 7 * 86_400_000 }),
  maxResults: whole({ min: 10, max: 1_000_000, default: 10_000 }),
  maxBytes: whole({ min: 65_536, max: 16_777_216, default: 1_048_576 }),
  gatherMs: duration({ min: 0, max: 10_000, default: 20 }),
} satisfies OptionTable<PartialResultsOptions>

/**
 * Lets tasks append partial results, which clients read while the task runs. A client of any
 * process gets each result once and in order, and can continue after the last one that it has. The
 * results are in the store, and are deleted with the task. A later run appends to the results of
 * earlier runs, which can then append no more.
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
  const external: PartialResultsResource = {
    of: newResource, release: () => undefined,
    remove: (name, { id }) => removeAll(store, { id, external: name }),
  }
  const runs = new WeakSet<object>()
  return {
    external,
    run: (work) => {
      const run: ReturnType<PartialResults<T>['run']> = (input, context) => (
        runEmitting<T, unknown>(store, context, limits, (emitting) => work(input as never, emitting as never))
      )
      runs.add(run)
      return run as never
    },
    endpoint: (endpoints) => {
      const core = coreOf(endpoints.tasks, 'partialResults')
      if (core.settings.store !== store) throw new TypeError('partialResults: pass the store that createTasks has')
      const definitions: Iterable<{ readonly name: string, readonly run: object, readonly external?: unknown }> = (
        core.settings.definitions.values()
      )
      for (const { name, run, external: owned } of definitions) {
        if (!runs.has(run)) continue
        if (owned !== external) throw new TypeError(`partialResults: the definition ${name} needs its property external, too`)
        if (core.longestRetentionMs(name) <= limits.keepMs) continue
        throw new TypeError(`partialResults: keepMs must be at least retentionMs and failedRetentionMs of the task ${name}`)
      }
      return createEndpoint(store, endpoints)
    },
  }
}
