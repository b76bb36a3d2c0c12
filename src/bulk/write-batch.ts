import { after, isPending, type MaybePromise } from '../runtime/maybe-promise.js'
import { httpError, isHttpError } from '../http/errors.js'
import type { Batch } from './batch.js'
import {
  FAILED, NO_RECORD, NOT_APPLIED, refusedBy, UNKNOWN_OUTCOME, type ItemFault,
} from './fault.js'
import { isOver, throwIfOver, type Run, type Writer, type Written } from './plan.js'

/**
 * Writes the good items of a batch, each on its own. What the repository throws fails the items of
 * that one call: nobody knows whether they were written. Gives whether it came to the end: when the
 * run was aborted, items that it had not come to are `not_applied`.
 */
export function writeEach<T>(run: Run<T>, batch: Batch<T>): MaybePromise<boolean> {
  const { plan: { writer } } = run
  return after(writer.many ? inSlices(run, batch, writer.many) : oneByOne(run, batch), (begun) => {
    for (let at = begun; at < batch.values.length; at++) batch.refused(at, NOT_APPLIED)
    return begun >= batch.values.length
  })
}

/**
 * Up to which item they were begun with; it may be past the last. A repository that answers at once
 * is not waited for.
 */
function inSlices<T>(run: Run<T>, batch: Batch<T>, write: NonNullable<Writer<T>['many']>): MaybePromise<number> {
  const { plan: { batchSize }, call } = run
  const { values } = batch
  let from = 0
  for (; from < values.length && !isOver(call); from += batchSize) {
    const slice = sliceOf(values, from, batchSize)
    try {
      const writing = write(slice, call)
      if (isPending(writing)) return inLateSlices(run, batch, write, from, writing)
      settleAll(run, batch, from, slice, writing)
    } catch (error) {
      unknown(run, batch, from, slice, error)
    }
  }
  return from
}

/** The rest of them, from one on that is being written. */
async function inLateSlices<T>(
  run: Run<T>, batch: Batch<T>, write: NonNullable<Writer<T>['many']>, begin: number, begun: Promise<readonly Written[]>,
): Promise<number> {
  const { plan: { batchSize }, call } = run
  const { values } = batch
  let writing: Promise<readonly Written[]> | undefined = begun
  let from = begin
  for (; from < values.length && (writing !== undefined || !isOver(call)); from += batchSize) {
    const slice = sliceOf(values, from, batchSize)
    try {
      settleAll(run, batch, from, slice, await (writing ?? write(slice, call)))
    } catch (error) {
      unknown(run, batch, from, slice, error)
    }
    writing = undefined
  }
  return from
}

function unknown<T>({ tell }: Run<T>, batch: Batch<T>, from: number, slice: readonly T[], error: unknown): void {
  tell(error)
  slice.forEach((_, at) => { batch.refused(from + at, UNKNOWN_OUTCOME) })
}

async function oneByOne<T>(run: Run<T>, batch: Batch<T>): Promise<number> {
  const { plan: { writer, concurrency }, call, tell } = run
  const { values } = batch
  let next = 0
  const lane = async (): Promise<void> => {
    while (next < values.length && !isOver(call)) {
      const at = next++
      const value = values[at] as T
      try {
        const writing = writer.one(value, call)
        settle(run, batch, at, value, isPending(writing) ? await writing : writing)
      } catch (error) {
        batch.refused(at, faultOf(error, UNKNOWN_OUTCOME, tell))
      }
    }
  }
  await Promise.all(Array.from({ length: Math.min(concurrency, values.length) }, lane))
  return next
}

/**
 * Writes a batch inside of a transaction, one item or one slice after the other. Throws at a fault,
 * which the batch has then, and what the repository's `createMany` or `updateMany` throws: it does
 * not tell which item was at fault.
 */
export async function writeAll<T>(run: Run<T>, batch: Batch<T>, writer: Writer<T>): Promise<void> {
  const { plan: { batchSize }, call, tell } = run
  const { values, faults } = batch
  const step = writer.many ? batchSize : 1
  for (let from = 0; from < values.length; from += step) {
    throwIfOver(call)
    if (writer.many) {
      const slice = sliceOf(values, from, step)
      const writing = writer.many(slice, call)
      settleAll(run, batch, from, slice, isPending(writing) ? await writing : writing)
    } else {
      const value = values[from] as T
      try {
        const writing = writer.one(value, call)
        settle(run, batch, from, value, isPending(writing) ? await writing : writing)
      } catch (error) {
        batch.refused(from, faultOf(error, FAILED, tell))
      }
    }
    if (faults.size > 0) throw httpError('batch_failed')
  }
}

function settleAll<T>(run: Run<T>, batch: Batch<T>, from: number, slice: readonly T[], outcomes: readonly Written[]): void {
  if (outcomes.length !== slice.length) {
    throw new TypeError(`The repository gave ${outcomes.length} outcomes for ${slice.length} records; give one for each`)
  }
  for (let at = 0; at < slice.length; at++) settle(run, batch, from + at, slice[at] as T, outcomes[at])
}

function settle<T>({ plan }: Run<T>, batch: Batch<T>, at: number, value: T, outcome: Written): void {
  if (outcome === undefined) {
    if (plan.kind === 'create') throw new TypeError('The repository gave no record for one that it should have created')
    batch.refused(at, NO_RECORD)
  } else if (isHttpError(outcome)) batch.refused(at, refusedBy(outcome))
  else batch.written(at, plan.idOf(outcome, value))
}

/** A refusal is the item's, everything else the host's. */
function faultOf(error: unknown, otherwise: ItemFault, tell: Run<unknown>['tell']): ItemFault {
  if (isHttpError(error)) {
    const refused = refusedBy(error)
    if (error.cause !== undefined || refused.status >= 500) tell(error)
    return refused
  }
  tell(error)
  return otherwise
}

function sliceOf<T>(values: readonly T[], from: number, size: number): readonly T[] {
  return from === 0 && values.length <= size ? values : values.slice(from, from + size)
}
