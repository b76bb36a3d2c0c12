import type { HttpError } from '../http/errors.js'
import type { MaybePromise } from '../runtime/maybe-promise.js'
import { isDisconnect } from '../http/failure.js'
import { telling } from '../runtime/warning.js'
import type { Call } from '../repositories/repository.js'
import type { Schema } from '../schema/schema.js'
import type { ItemId } from './batch.js'

/** A record as it was written, why it was refused, or `undefined` when there is none. */
export type Written = object | HttpError | undefined

/** How items are written, by whatever a repository has. */
export interface Writer<T> {
  readonly many?: (items: readonly T[], call: Call) => MaybePromise<readonly Written[]>
  readonly one: (item: T, call: Call) => MaybePromise<Written>
}

/** The attempt of a task in which the repository or the schema failed. */
export interface BulkFaultPlace {
  readonly taskId: string
  readonly name: string
  readonly attempt: number
}

/**
 * All that the two bulk endpoints differ in, and the options with their defaults. Sizes are in
 * bytes.
 */
export interface Plan<T> {
  readonly kind: 'create' | 'update'
  readonly method: 'POST' | 'PATCH'
  /** Of an answer where all went well. */
  readonly status: 200 | 201
  /** The member of the body that holds the array; `undefined`: the body is the array. */
  readonly member: string | undefined
  readonly schema: Schema<T> | undefined
  /** What two items of one batch can't both have. */
  readonly key: ((item: T) => string | undefined) | undefined
  readonly writer: Writer<T>
  /** Set where the batch is to be atomic. */
  readonly transaction: (<R>(work: (writer: Writer<T>) => Promise<R>, call: Call) => Promise<R>) | undefined
  /** Names a written item in the report. */
  readonly idOf: (written: object, item: T) => ItemId | undefined
  readonly batchSize: number
  readonly concurrency: number
  readonly maxItems: number
  readonly maxBytes: number
  readonly maxDecodedBytes: number
  readonly maxRatio: number
  readonly maxItemBytes: number
  readonly streamAboveBytes: number
  readonly maxReportBytes: number
  readonly mixedStatus: 200 | 207
  readonly onError: (error: unknown, at?: BulkFaultPlace) => unknown
}

/** A call that may tell of its end without making a signal. */
export interface BulkCall extends Call {
  readonly gone?: boolean | undefined
  /** The task that does the work, where one does. */
  readonly at?: BulkFaultPlace
}

/** One request, or one run of a task. */
export interface Run<T> {
  readonly plan: Plan<T>
  readonly call: BulkCall
  /** Hands a fault of the host's to `onError`; not more than ten of one run. */
  readonly tell: (error: unknown) => void
}

const MAX_TOLD = 10

/** Whether nobody waits any more. */
export function isOver(call: BulkCall): boolean {
  return call.gone ?? call.signal.aborted
}

/** Throws the reason when nobody waits any more. */
export function throwIfOver(call: BulkCall): void {
  if (isOver(call)) call.signal.throwIfAborted()
}

/** A run of a plan. */
export function startRun<T>(plan: Plan<T>, call: BulkCall): Run<T> {
  let told = 0
  const tell = (error: unknown): void => {
    if (!isDisconnect(error, call) && told++ < MAX_TOLD) telling(() => plan.onError(error, call.at))
  }
  return { plan, call, tell }
}
