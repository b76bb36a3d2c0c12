import type { MaybePromise } from '../runtime/maybe-promise.js'
import { checkNames } from '../runtime/option-names.js'
import { aboutTask, warn } from '../runtime/warning.js'
import { fromPointer, isPointer } from '../schema/pointer.js'
import { assertSchema, type Schema } from '../schema/schema.js'
import type { ResumedTask } from '../tasks/definition/resume.js'
import { SPOOLED_TASK, type SpooledTaskOptions } from '../tasks/definition/spooled-task.js'
import type { BulkErrorPlace, BulkSettings } from './settings.js'

/** Options that `bulkCreate` and `bulkUpdate` share. */
export interface BulkOptions<T> {
  /**
   * JSON pointer (RFC 6901) to the array in the body, such as `/data/users`; `''` if the body is
   * the array. Digits name an element if the body has an array at that place, else a member. At
   * most 256 characters.
   */
  readonly items?: string
  /**
   * Treatment of members and elements of the body that do not lead to the array of `items`.
   * `refuse` answers 400 `invalid_input`. `ignore` checks that they are valid JSON and drops them.
   *
   * @default 'refuse'
   */
  readonly otherMembers?: 'refuse' | 'ignore'
  /** Validates each item; its output is written. Default: any object. */
  readonly schema?: Schema<T>
  /**
   * `true`: all items are written, or none. The repository needs `transaction`. `'if-possible'`:
   * the same if the repository has it. `false`: each item is written on its own.
   */
  readonly atomic?: boolean | 'if-possible'
  /**
   * Maximum number of items in one `createMany` or `updateMany`.
   *
   * @default 500
   */
  readonly batchSize?: number
  /**
   * Number of items that are written at the same time if the repository has only `create` or
   * `update`. Also the number of items that an asynchronous schema validates at the same time. In a
   * transaction items are written one after the other.
   *
   * @default 8
   */
  readonly concurrency?: number
  /**
   * Maximum number of items; more are a 413.
   *
   * @default 100_000
   */
  readonly maxItems?: number
  /**
   * Maximum size of the body as sent, in bytes; a larger one is a 413.
   *
   * @default 33_554_432 (32 MiB)
   */
  readonly maxBodyBytes?: number
  /**
   * Maximum size of the body of a synchronous request, in bytes, as sent and after its content
   * coding is undone. The whole body is held in memory and checked before anything is written. With
   * `background`, a larger body becomes a task, and the response is a 202 as for `Prefer:
   * respond-async`. Without, it gets a 413, and nothing is written.
   *
   * @default 8_388_608 (8 MiB)
   */
  readonly maxDirectBytes?: number
  /** Maximum size of the body after its content coding is undone. Default: `maxBodyBytes`. */
  readonly maxDecodedBytes?: number
  /**
   * Maximum number of decoded bytes for each byte sent, checked above 1 MiB.
   *
   * @default 250
   */
  readonly maxRatio?: number
  /**
   * Maximum size of one item of a body above `streamAboveBytes`, in bytes.
   *
   * @default 1_048_576 (1 MiB)
   */
  readonly maxItemBytes?: number
  /**
   * The items of a larger body are parsed and written in batches, so that they are never all in
   * memory. In bytes, after the content coding is undone.
   *
   * @default 262_144 (256 KiB)
   */
  readonly streamAboveBytes?: number
  /**
   * After so many bytes of a report, errors are listed with their code only.
   *
   * @default 8_388_608 (8 MiB)
   */
  readonly maxReportBytes?: number
  /**
   * Status of an answer if some items succeeded and others failed.
   *
   * @default 207
   */
  readonly mixedStatus?: 200 | 207
  /**
   * Receives errors of the repository and the schema, at most ten in one request or attempt. In the
   * background `place` is the attempt of the task. Default: a process warning.
   */
  readonly onError?: (error: unknown, place?: BulkErrorPlace) => unknown
  /**
   * Returns the `cursor` that was stored with the last batch of this task; `undefined` if there is
   * none. Called when the task of a batch runs again, which then continues after those items. Needs
   * `background`, and a repository with `createMany` or `updateMany`, or an atomic batch.
   *
   * Default: the task continues after its last checkpoint, which is saved after each `batchSize`
   * items. Items that were being written when the process died are then written again.
   */
  readonly resume?: (task: ResumedTask) => MaybePromise<string | null | undefined>
  /**
   * Lets clients ask for the work to be done in the background, by a task with these options.
   * Default: all requests are answered directly.
   */
  readonly background?: BulkBackgroundOptions
}

/**
 * Options of the task that writes batches in the background.
 *
 * A task that runs again, because of `attempts`, of a retry or after a crash, continues after the
 * items that it has committed. Its report is that of a run without a break. An atomic batch that was
 * not committed starts over.
 *
 * If the repository fails, the next attempt repeats the write if it throws a 503 or 429 (nothing was
 * written), or if `resume` is set. Otherwise it continues after these items, which are
 * `write_outcome_unknown`. After a crash up to `batchSize` items may be written twice, so make the
 * writes repeatable, or use `resume`.
 */
export interface BulkBackgroundOptions extends SpooledTaskOptions {
  /**
   * Maximum size of the list of items in the task's result, in bytes. A longer list is only at
   * `{status}/items`. It must be 1024 or more below `maxResultBytes` of `createTasks`.
   *
   * @default 262_144 (256 KiB)
   */
  readonly maxInlineBytes?: number
}

const BACKGROUND = {
  ...SPOOLED_TASK, maxInlineBytes: 0,
} satisfies Record<keyof BulkBackgroundOptions, 0>

/** Names of the options that both endpoints have, for `checkNames`. */
export const BULK = {
  repository: 0, items: 0, otherMembers: 0, schema: 0, atomic: 0, batchSize: 0, concurrency: 0,
  maxItems: 0, maxBodyBytes: 0, maxDirectBytes: 0, maxDecodedBytes: 0, maxRatio: 0,
  maxItemBytes: 0, streamAboveBytes: 0, maxReportBytes: 0, mixedStatus: 0, resume: 0, onError: 0,
  background: 0,
} satisfies Record<keyof BulkOptions<never> | 'repository', 0>

/** @throws {TypeError} The options have an unknown name. */
export function checkBulkNames(
  caller: string, options: { readonly background?: unknown }, known: Readonly<Record<string, 0>>,
): void {
  checkNames(caller, options, known)
  const { background } = options
  if (background !== undefined) checkNames(`${caller}: background`, background, BACKGROUND)
}

type Shared = Pick<BulkSettings<never>,
  'items' | 'path' | 'otherMembers' | 'batchSize' | 'concurrency' | 'maxItems' | 'maxBodyBytes'
  | 'maxDirectBytes' | 'maxDecodedBytes' | 'maxRatio' | 'maxItemBytes' | 'streamAboveBytes'
  | 'maxReportBytes' | 'mixedStatus' | 'resume' | 'onError'>

const MAX_ITEM_BYTES = 268_435_456
const MAX_CONCURRENCY = 10_000
const MAX_ITEMS_LENGTH = 256

/**
 * Returns the shared options with their defaults. `defaultItems` is the default of `items`.
 *
 * @throws {TypeError} An option is not valid.
 */
export function withDefaults<T>(
  caller: string, options: BulkOptions<T>, defaultItems: string,
): Shared {
  const {
    items = defaultItems, otherMembers = 'refuse', batchSize = 500, concurrency = 8,
    maxItems = 100_000, maxBodyBytes = 33_554_432, maxDirectBytes = 8_388_608,
    maxDecodedBytes = maxBodyBytes, maxRatio = 250, maxItemBytes = 1_048_576,
    streamAboveBytes = 262_144, maxReportBytes = 8_388_608, mixedStatus = 207,
    onError = warnOfError, schema, resume, background,
  } = options
  const invalid = (what: string): TypeError => new TypeError(`${caller}: ${what}`)
  if (typeof items !== 'string' || !isPointer(items) || items.length > MAX_ITEMS_LENGTH) {
    throw invalid("items must be a JSON pointer such as '/data/users', of at most"
      + ` ${MAX_ITEMS_LENGTH} characters; '' is the whole body`)
  }
  const path = fromPointer(items)
  if (path.includes('__proto__')) throw invalid('items has a name that no body may have: __proto__')
  if (otherMembers !== 'refuse' && otherMembers !== 'ignore') {
    throw invalid("otherMembers must be 'refuse' or 'ignore'")
  }
  for (const [name, value] of Object.entries({ batchSize, concurrency, maxItems })) {
    if (value >= 1 && (Number.isInteger(value) || value === Infinity)) continue
    throw invalid(`${name} must be a whole number from 1`)
  }
  for (const [name, value] of Object.entries({
    maxBodyBytes, maxDirectBytes, maxDecodedBytes, maxRatio,
  })) {
    if (!(value >= 1)) throw invalid(`${name} must be 1 or more`)
  }
  for (const [name, value] of Object.entries({ streamAboveBytes, maxReportBytes })) {
    if (!(value >= 0)) throw invalid(`${name} must be 0 or more`)
  }
  if (!(Number.isInteger(maxItemBytes) && maxItemBytes >= 1 && maxItemBytes <= MAX_ITEM_BYTES)) {
    throw invalid(`maxItemBytes must be a whole number from 1 to ${MAX_ITEM_BYTES}`)
  }
  if (mixedStatus !== 200 && mixedStatus !== 207) throw invalid('mixedStatus must be 200 or 207')
  if (schema !== undefined) assertSchema(schema, `${caller}: schema`)
  if (typeof onError !== 'function') throw invalid('onError must be a function')
  if (resume !== undefined && typeof resume !== 'function') {
    throw invalid('resume must be a function that returns a stored cursor')
  }
  if (resume !== undefined && background === undefined) {
    throw invalid('resume needs background, because only tasks run again')
  }
  return {
    items, path, otherMembers, batchSize, concurrency: Math.min(concurrency, MAX_CONCURRENCY),
    maxItems, maxBodyBytes, maxDirectBytes, maxDecodedBytes, maxRatio, maxItemBytes,
    streamAboveBytes, maxReportBytes, mixedStatus, resume, onError,
  }
}

function warnOfError(error: unknown, place?: BulkErrorPlace): void {
  warn(error, place && aboutTask(place))
}

/**
 * Returns true if batches are atomic.
 *
 * @throws {TypeError} `atomic` is true and the repository has no `transaction`.
 */
export function isAtomic<R extends { transaction?: unknown }>(
  caller: string, atomic: boolean | 'if-possible', repository: R,
): repository is R & { transaction: NonNullable<R['transaction']> } {
  if (atomic !== true && atomic !== false && atomic !== 'if-possible') {
    throw new TypeError(`${caller}: atomic must be true, false or 'if-possible'`)
  }
  if (repository.transaction !== undefined) return atomic !== false
  if (atomic !== true) return false
  throw new TypeError(`${caller}: atomic needs a repository with transaction(work, call);`
    + ' add it, or set atomic to false or \'if-possible\'')
}
