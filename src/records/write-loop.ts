import type { MaybePromise } from '../runtime/maybe-promise.js'
import { useBatches, type Batch, type BatchSettings, type Block } from './batch.js'
import { isUnknown, type RecordOutcome } from './outcome.js'
import type { Report } from './report.js'

/** Outcomes of the records of a batch, or `undefined` if all were written. */
export type Outcomes = readonly (RecordOutcome | undefined)[] | undefined

export interface WritePlace {
  /** Number of each record in the body, from 1. */
  readonly lines: readonly number[]
  /** Returns the position after this batch, as a string to store with the records. */
  readonly cursor: (outcomes?: Outcomes) => string
  readonly previous: string | undefined
}

export type Write<T> = (records: T[], place: WritePlace) => MaybePromise<Outcomes>

/** Thrown by a write that ends the run. */
export class InterruptedWrite extends Error {
  constructor(readonly outcomes: readonly RecordOutcome[], readonly reason: unknown) {
    super('The write was interrupted')
  }
}

export interface Continuation {
  readonly previous: string | undefined
  cursorAfter(batch: Batch<unknown>, outcomes: Outcomes): string
  /** Commits the position after a batch. */
  commit(batch: Batch<unknown>): Promise<void>
}

/** One pass over the records of a body. */
export interface RecordRun<T> {
  readonly report: Report
  readonly write: Write<T>
  /** Checked before each batch: `gone` if present, because it is cheaper, and else `signal`. */
  readonly call: { readonly gone?: boolean | undefined, readonly signal: AbortSignal }
  /** Absent for a synchronous request, which nothing continues. */
  readonly continuation?: Continuation | undefined
}

/**
 * Writes batches, one after the other, reports their records and commits the position after each.
 * Yields after each batch, so that the results of the batch can be streamed.
 */
export async function* writeRecords<T>(
  run: RecordRun<T>, batches: AsyncIterable<Batch<T>>,
): AsyncGenerator<void, void, undefined> {
  const writeBatch = batchWriter(run)
  for await (const batch of batches) {
    await writeBatch(batch)
    yield
  }
}

/**
 * Does what `writeRecords` does, for a report at the end, with the batches of a block or of blocks.
 */
export function writeAll<T>(
  run: RecordRun<T>, body: Block<object> | AsyncIterable<Block<object>>, settings: BatchSettings<T>,
): Promise<void> {
  return useBatches(body, settings, batchWriter(run))
}

function batchWriter<T>(
  { report, write, call, continuation }: RecordRun<T>,
): (batch: Batch<T>) => Promise<void> {
  let previous = continuation?.previous
  return async (batch) => {
    throwIfAborted(call)
    let outcomes: Outcomes
    if (batch.values.length > 0) {
      let stored: string | undefined
      const cursor = (given: Outcomes): string => (
        stored = continuation?.cursorAfter(batch, given) ?? ''
      )
      try {
        outcomes = await write(batch.values, { lines: batch.numbers, cursor, previous })
      } catch (error) {
        if (!(error instanceof InterruptedWrite)) throw error
        const known = batch.before(error.outcomes.length)
        report.add(known, error.outcomes)
        if (known.values.length > 0 && !isAborted(call)) await continuation?.commit(known)
        throw error.reason
      }
      // A call that failed has stored nothing.
      if (!isUnknown(outcomes?.[0] ?? {})) previous = stored ?? previous
    }
    report.add(batch, outcomes)
    if (continuation !== undefined) await continuation.commit(batch)
  }
}

export function isAborted(call: RecordRun<never>['call']): boolean {
  return call.gone ?? call.signal.aborted
}

/** Throws the reason if the client has disconnected or the task was stopped. */
export function throwIfAborted(call: RecordRun<never>['call']): void {
  if (isAborted(call)) call.signal.throwIfAborted()
}
