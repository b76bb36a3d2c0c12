import type { HttpError } from '../http/errors.js'
import type { Call } from '../repositories/repository.js'
import type { MaybePromise } from '../runtime/maybe-promise.js'
import type { Schema } from '../schema/schema.js'
import type { Resume } from '../tasks/definition/resume.js'
import type { ItemId } from './batch.js'

/**
 * Outcome of a write: the record, the reason of a refusal, or `undefined` if there is no record.
 */
export type Written = object | HttpError | undefined

/** Writes items with the methods that the repository has. */
export interface Writer<T> {
  readonly many?: (items: readonly T[], call: Call) => MaybePromise<readonly Written[]>
  readonly one: (item: T, call: Call) => MaybePromise<Written>
}

/** The attempt of a task in which the repository or the schema failed. */
export interface BulkErrorPlace {
  readonly taskId: string
  /** Name of the task's definition. */
  readonly name: string
  readonly attempt: number
}

/** Settings of a bulk endpoint: its options with defaults, and what create and update differ in. */
export interface BulkSettings<T> {
  readonly kind: 'create' | 'update'
  readonly method: 'POST' | 'PATCH'
  /** Status of an answer if all items succeeded. */
  readonly status: 200 | 201
  /** JSON pointer to the array in the body. */
  readonly items: string
  /** Keys of that pointer. */
  readonly path: readonly string[]
  /** Handling of what is beside the array in the body. */
  readonly otherMembers: 'refuse' | 'ignore'
  readonly schema: Schema<T> | undefined
  /** Returns a key that no two items of one batch may share. */
  readonly key: ((item: T) => string | undefined) | undefined
  readonly writer: Writer<T>
  /** Runs `work` in a transaction; set if batches are atomic. */
  readonly transaction: Transaction<T> | undefined
  /** Returns the id of a written item, for the report. */
  readonly idOf: (written: object, item: T) => ItemId | undefined
  readonly batchSize: number
  readonly concurrency: number
  readonly maxItems: number
  readonly maxBodyBytes: number
  readonly maxDirectBytes: number
  readonly maxDecodedBytes: number
  readonly maxRatio: number
  readonly maxItemBytes: number
  readonly streamAboveBytes: number
  readonly maxReportBytes: number
  readonly mixedStatus: 200 | 207
  readonly resume: Resume | undefined
  readonly onError: (error: unknown, place?: BulkErrorPlace) => unknown
}

export type Transaction<T> = <R>(
  work: (writer: Writer<T>) => Promise<R>, call: Call,
) => Promise<R>
