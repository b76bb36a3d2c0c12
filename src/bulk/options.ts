import type { MaybePromise } from '../runtime/maybe-promise.js'
import type { DecodeOptions } from '../http/body/decode.js'
import type { Preferences } from '../http/headers/prefer.js'
import type { Call } from '../repositories/repository.js'
import { checkNames } from '../runtime/option-names.js'
import {
  bytes, func, oneOf, readOptions, value, whole, type OptionTable,
} from '../runtime/options.js'
import { fromPointer, isPointer } from '../schema/pointer.js'
import { assertSchema, type Schema } from '../schema/schema.js'
import { warnOfError, type RecordErrorPlace } from '../records/error-reports.js'
import type { ItemSelection } from '../records/report.js'
import type { Resume, ResumedTask } from '../records/spooled-run.js'
import { SPOOLED_TASK, type SpooledTaskOptions } from '../records/spool.js'

/** Id of a record, as the report shows it. */
export type ItemId = string | number

/** The response that a request asks for, and its body. */
export interface BulkAsked {
  /** Content coding of the body. */
  readonly coding: string
  /** Items that the report lists. */
  readonly selection: ItemSelection
  /** Preference `handling` that is honoured. */
  readonly handling: Preferences['handling']
}

/** Calls the repository. `readReturned` reads what it returns for a record. */
export interface Writer<T> {
  readonly many?: (items: readonly T[], call: Call) => MaybePromise<readonly unknown[]>
  readonly one: (item: T, call: Call) => unknown
}

/** Options of a bulk endpoint with defaults, and the differences between create and update. */
export interface BulkSettings<T>
  extends Required<Omit<BulkOptions<T>, 'schema' | 'resume' | 'background'>> {
  readonly kind: 'create' | 'update'
  readonly method: 'POST' | 'PATCH'
  /** Status of a response if all items succeeded. */
  readonly status: 200 | 201
  /** Keys of the pointer `items`. */
  readonly path: readonly string[]
  readonly schema: Schema<T> | undefined
  readonly key: ((item: T) => string | undefined) | undefined
  readonly writer: Writer<T>
  readonly transaction: RunInTransaction<T> | undefined
  readonly idOf: (written: object, item: T) => ItemId | undefined
  readonly resume: Resume | undefined
  readonly limits: Required<DecodeOptions>
}

export type RunInTransaction<T> = <R>(work: (writer: Writer<T>) => Promise<R>, call: Call) => Promise<R>

/** Options that `bulkCreate` and `bulkUpdate` share. */
export interface BulkOptions<T> {
  /**
   * JSON pointer (RFC 6901) to the array in the body, such as `/data/users`; `''` if the body is
   * the array.
   *
   * Digits name an element if the body has an array there, else a property. At most 256 characters.
   */
  readonly items?: string
  /**
   * Treatment of other properties and elements of the body. `refuse` responds with 400
   * `invalid_input`. `ignore` checks that they are valid JSON and leaves them out. Default: `refuse`.
   */
  readonly otherMembers?: 'refuse' | 'ignore'
  /** Validates each item; its output is written. Default: any object. */
  readonly schema?: Schema<T>
  /**
   * `true`: all items are written, or none; the repository needs `transaction`. `'if-possible'`:
   * the same if the repository has it, unless the client sends `Prefer: handling=lenient`. `false`:
   * each item is written separately.
   */
  readonly atomic?: boolean | 'if-possible'
  /** Maximum number of items in one `createMany` or `updateMany`. Default: 500. */
  readonly batchSize?: number
  /**
   * Number of items that are written at the same time by `create` or `update`, or validated at the
   * same time by an asynchronous schema. Default: 8.
   *
   * In a transaction items are written one after the other.
   */
  readonly concurrency?: number
  /**
   * Maximum number of items. Default: 100_000.
   *
   * More get a 413.
   */
  readonly maxItems?: number
  /**
   * Maximum size of the body as sent, in bytes. Default: 33_554_432 (32 MiB).
   *
   * More gets a 413.
   */
  readonly maxBodyBytes?: number
  /**
   * Maximum size of the body of a synchronous request, in bytes, both as sent and decoded. Default:
   * 8_388_608 (8 MiB).
   *
   * A larger body becomes a task with `background`, and otherwise gets a 413.
   *
   * The whole body is held in memory and checked before anything is written. The response to a body
   * that becomes a task is a 202, as for `Prefer: respond-async`.
   */
  readonly maxDirectBytes?: number
  /** Maximum size of the decoded body, in bytes. Default: `maxBodyBytes`. */
  readonly maxDecodedBytes?: number
  /** Maximum number of decoded bytes per byte sent, checked above 1 MiB. Default: 250. */
  readonly maxRatio?: number
  /**
   * Maximum size of one item of a body above `streamAboveBytes`, in bytes. Default: 1_048_576 (1
   * MiB).
   */
  readonly maxItemBytes?: number
  /**
   * Maximum size of a decoded body that is parsed as a whole, in bytes. Default: 262_144 (256 KiB).
   *
   * The items of a larger body are parsed and written in batches.
   */
  readonly streamAboveBytes?: number
  /**
   * Size of a report, in bytes, after which errors are listed with their code only. Default:
   * 8_388_608 (8 MiB).
   */
  readonly maxReportBytes?: number
  /** Status of a response if some items succeeded and others failed. Default: 207. */
  readonly mixedStatus?: 200 | 207
  /**
   * Receives errors of the repository and the schema, at most ten in one request or attempt.
   * Default: a process warning.
   *
   * In the background `place` is the attempt of the task.
   */
  readonly onError?: (error: unknown, place?: RecordErrorPlace) => unknown
  /**
   * Returns the `cursor` that was stored with the last batch of this task. Default: after its last
   * checkpoint, which is saved after each `batchSize` items.
   *
   * Return `undefined` if there is none. A task that runs again continues after those items.
   *
   * Needs `background`, and a repository with `createMany` or `updateMany`, or an atomic batch.
   * With the default, items that were being written when the process died are written again.
   */
  readonly resume?: (task: ResumedTask) => MaybePromise<string | null | undefined>
  /**
   * Lets clients request that a task with these options does the work in the background. Default:
   * all responses are synchronous.
   */
  readonly background?: BulkBackgroundOptions
}

/**
 * Options of the task that writes batches in the background.
 *
 * A task that runs again, because of `attempts`, of a retry or after a crash, continues after the
 * items that it has committed. Its report covers all runs. An atomic batch that was not committed
 * starts over.
 *
 * If the repository throws a 503 or 429 (nothing was written), or if `resume` is set, the next
 * attempt repeats the write. After another failure it continues after these items, which are
 * `write_outcome_unknown`. After a crash up to `batchSize` items may be written twice, so make the
 * writes idempotent, or use `resume`.
 */
export interface BulkBackgroundOptions extends SpooledTaskOptions {
  /**
   * Maximum size of the list of items in the task's result, in bytes. Default: 262_144 (256 KiB).
   *
   * A longer list is only at `{status}/items`.
   *
   * Must be 1024 or more below `maxResultBytes` of `createTasks`.
   */
  readonly maxInlineBytes?: number
}

const BACKGROUND = {
  ...SPOOLED_TASK, maxInlineBytes: 0,
} satisfies Record<keyof BulkBackgroundOptions, 0>

const MAX_ITEM_BYTES = 268_435_456
const MAX_ITEMS_LENGTH = 256
const isItems = (pointer: unknown): boolean => (
  typeof pointer === 'string' && isPointer(pointer) && pointer.length <= MAX_ITEMS_LENGTH
    && !fromPointer(pointer).includes('__proto__')
)
const isMixedStatus = (status: unknown): boolean => status === 200 || status === 207
const limit = <D extends number>(min: number, defaultValue: D) => (
  bytes({ min, default: defaultValue })
)

export const BULK = {
  repository: value('an object with the methods of your repository'),
  items: value(
    `a JSON pointer such as '/data/users', of at most ${MAX_ITEMS_LENGTH} characters and without`
      + " __proto__; '' is the whole body", isItems,
  ),
  otherMembers: oneOf(['refuse', 'ignore'], { default: 'refuse' }),
  schema: value('a schema'),
  atomic: value("true, false or 'if-possible'", (given) => (
    given === true || given === false || given === 'if-possible'
  )),
  key: func(),
  batchSize: whole({ min: 1, infinity: true, default: 500 }),
  concurrency: whole({ min: 1, infinity: true, default: 8 }),
  maxItems: whole({ min: 1, infinity: true, default: 100_000 }),
  maxBodyBytes: limit(1, 33_554_432),
  maxDirectBytes: limit(1, 8_388_608),
  maxDecodedBytes: bytes({ min: 1 }),
  maxRatio: limit(1, 250),
  maxItemBytes: whole({ min: 1, max: MAX_ITEM_BYTES, default: 1_048_576 }),
  streamAboveBytes: limit(0, 262_144),
  maxReportBytes: limit(0, 8_388_608),
  mixedStatus: value('200 or 207', isMixedStatus, { default: 207 as 200 | 207 }),
  resume: func(),
  onError: func(),
  background: value('an object'),
} satisfies OptionTable<BulkOptions<never> & { readonly repository: unknown, readonly key?: unknown }>

const MAX_CONCURRENCY = 10_000

type Shared = Omit<BulkSettings<never>,
  'kind' | 'method' | 'status' | 'key' | 'writer' | 'transaction' | 'idOf' | 'schema' | 'atomic'>

export function withDefaults<T>(
  where: string, options: BulkOptions<T>, table: typeof BULK, defaultItems: string,
): Shared {
  const read = readOptions(where, options as BulkOptions<never>, table)
  const { schema, resume, background, items = defaultItems, onError = warnOfError } = read
  const { maxBodyBytes, maxDecodedBytes = maxBodyBytes, maxRatio } = read
  if (schema !== undefined) assertSchema(schema, `${where}: schema`)
  if (background !== undefined) checkNames(`${where}: background`, background, BACKGROUND)
  if (resume !== undefined && background === undefined) {
    throw new TypeError(`${where}: resume needs background, because only tasks run again`)
  }
  return {
    ...read, items, path: fromPointer(items), resume, onError,
    maxDecodedBytes, limits: { maxBodyBytes, maxDecodedBytes, maxRatio },
    concurrency: Math.min(read.concurrency, MAX_CONCURRENCY),
  }
}

export function isAtomic<R extends { transaction?: unknown }>(
  where: string, atomic: boolean | 'if-possible', repository: R,
): repository is R & { transaction: NonNullable<R['transaction']> } {
  if (repository.transaction !== undefined) return atomic !== false
  if (atomic !== true) return false
  throw new TypeError(`${where}: atomic needs a repository with transaction(work, call);`
    + ' add it, or set atomic to false or \'if-possible\'')
}
