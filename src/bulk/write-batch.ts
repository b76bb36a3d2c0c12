import { isHttpError } from '../http/errors.js'
import type { Batch } from './batch.js'
import { isAborted, isRepeated, isUnavailable, throwIfAborted, type BulkRun } from './bulk-run.js'
import {
  NO_RECORD, NOT_APPLIED, NOT_WRITTEN, refusalOf, UNKNOWN_OUTCOME, type ItemError,
} from './item-error.js'
import type { Writer, Written } from './settings.js'
import { isReplaced } from '../tasks/definition/resume.js'

/**
 * Writes the valid items of a batch, each on its own. An error of the repository fails the items of
 * that call with `write_outcome_unknown`, or with a 503 or 429 that says that nothing was written.
 * If the run is aborted, the remaining items are `not_applied`. If the next attempt of the task repeats a write, sets `stopped` of the batch.
 * Returns true if all writes were started.
 */
export async function writeEach<T>(run: BulkRun<T>, batch: Batch<T>): Promise<boolean> {
  const { writer } = run.settings
  const { values } = batch
  const started = writer.many
    ? await writeSlices(run, batch, writer.many)
    : await writeOneByOne(run, batch)
  for (let number = started; number < values.length; number++) batch.setFailed(number, NOT_APPLIED)
  return started >= values.length
}

/** Writes slices of `batchSize`, one after the other. Returns how many items were started. */
async function writeSlices<T>(
  run: BulkRun<T>, batch: Batch<T>, write: NonNullable<Writer<T>['many']>,
): Promise<number> {
  const { settings: { batchSize, resume }, call, reportError } = run
  const { values } = batch
  const isExact = resume !== undefined
  let from = 0
  for (; from < values.length && !isAborted(call); from += batchSize) {
    const slice = sliceOf(values, from, batchSize)
    try {
      setOutcomes(run, batch, from, await write(slice, call))
    } catch (error) {
      if (isReplaced(error)) throw error
      if (isRepeated(run, error, isExact)) {
        batch.stopped = { number: from, error }
        return from
      }
      reportError(error)
      const itemError = isUnavailable(error) ? refusalOf(error) : UNKNOWN_OUTCOME
      slice.forEach((_, at) => { batch.setFailed(from + at, itemError) })
    }
  }
  return from
}

/**
 * Writes `concurrency` items at a time. Returns how many items were started.
 *
 * If the next attempt repeats a write, no further one is started. Other writes may have succeeded
 * meanwhile. So the next attempt begins after the last item whose outcome is known.
 */
async function writeOneByOne<T>(run: BulkRun<T>, batch: Batch<T>): Promise<number> {
  const { settings: { writer, concurrency }, call } = run
  const { values } = batch
  let next = 0
  let done = 0
  let stop: { readonly error: unknown } | undefined
  const worker = async (): Promise<void> => {
    while (next < values.length && !stop && !isAborted(call)) {
      const number = next++
      try {
        setOutcome(run, batch, number, await writer.one(values[number] as T, call))
      } catch (error) {
        if (isHttpError(error) && isRepeated(run, error, false)) {
          batch.setFailed(number, refusalOf(error))
          stop ??= { error }
          continue
        }
        batch.setFailed(number, itemErrorOf(run, error, UNKNOWN_OUTCOME))
      }
      done = Math.max(done, number + 1)
    }
  }
  await Promise.all(Array.from({ length: Math.min(concurrency, values.length) }, worker))
  if (!stop) return next
  if (done < values.length) batch.stopped = { number: done, error: stop.error }
  return done
}

/**
 * Writes the valid items of a batch inside a transaction, one slice or one item after the other.
 * Continues after refused items. Returns false if another error has failed an item: then the
 * remaining items were not written. Throws errors of `createMany` and `updateMany`, which do not
 * say which item caused them, and errors after which the next attempt of the task starts over.
 */
export async function writeAll<T>(
  run: BulkRun<T>, batch: Batch<T>, writer: Writer<T>,
): Promise<boolean> {
  const { settings: { batchSize }, call } = run
  const { values } = batch
  const step = writer.many ? batchSize : 1
  for (let from = 0; from < values.length; from += step) {
    throwIfAborted(call)
    if (writer.many) {
      setOutcomes(run, batch, from, await writer.many(sliceOf(values, from, step), call))
      continue
    }
    try {
      setOutcome(run, batch, from, await writer.one(values[from] as T, call))
    } catch (error) {
      if (isRepeated(run, error, !isHttpError(error))) throw error
      const itemError = itemErrorOf(run, error, NOT_WRITTEN)
      batch.setFailed(from, itemError)
      if (itemError === NOT_WRITTEN) return false
    }
  }
  return true
}

/**
 * Adds the outcomes of one slice to a batch. `from` is the number of its first item.
 *
 * @throws {TypeError} There is not one outcome for each item.
 */
export function setOutcomes<T>(
  run: BulkRun<T>, batch: Batch<T>, from: number, outcomes: readonly Written[],
): void {
  const expected = Math.min(run.settings.batchSize, batch.values.length - from)
  if (outcomes.length !== expected) {
    throw new TypeError(`The repository returned ${outcomes.length} outcomes`
      + ` for ${expected} records; return one for each`)
  }
  for (let at = 0; at < expected; at++) setOutcome(run, batch, from + at, outcomes[at])
}

function setOutcome<T>(
  { settings }: BulkRun<T>, batch: Batch<T>, number: number, outcome: Written,
): void {
  if (isHttpError(outcome)) batch.setFailed(number, refusalOf(outcome))
  else if (outcome !== undefined) {
    batch.setWritten(number, settings.idOf(outcome, batch.values[number] as T))
  } else if (settings.kind === 'update') batch.setFailed(number, NO_RECORD)
  else throw new TypeError('The repository returned no record for one that it should have created')
}

/** Returns the error of an item: an `HttpError` is a refusal, any other error is masked. */
function itemErrorOf<T>(run: BulkRun<T>, error: unknown, masked: ItemError): ItemError {
  if (!isHttpError(error)) {
    run.reportError(error)
    return masked
  }
  const refusal = refusalOf(error)
  if (error.cause !== undefined || refusal.status >= 500) run.reportError(error)
  return refusal
}

function sliceOf<T>(values: readonly T[], from: number, size: number): readonly T[] {
  return from === 0 && values.length <= size ? values : values.slice(from, from + size)
}
