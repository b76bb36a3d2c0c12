import type { HttpRequest } from '../http/exchange.js'
import { httpError, isHttpError, isReplaced, type HttpError } from '../http/errors.js'
import { isForClient, readFailure } from '../http/failure.js'
import type { Call } from '../repositories/repository.js'
import { FailedRecord, readEach, readReturned } from '../repositories/returned.js'
import { errorReports, type RecordErrorPlace } from '../records/error-reports.js'
import {
  failed, NOT_APPLIED, NOT_WRITTEN, outcomeOfError, rejectedBy, UNKNOWN_OUTCOME, type RecordOutcome,
} from '../records/outcome.js'
import { InterruptedWrite, isAborted, throwIfAborted } from '../records/write-loop.js'
import type { BulkSettings, ItemId, Writer } from './options.js'

/** Arguments of repository calls, and the task that makes them. */
export interface BulkCall extends Call {
  /** `true` if the call is aborted. `undefined`: see `signal`. */
  readonly gone?: boolean | undefined
  readonly place?: RecordErrorPlace
}

/**
 * The call of a request. Its `signal` is created when a repository reads it, because that costs
 * more than ten items.
 */
export class RequestCall implements BulkCall {
  readonly #request: HttpRequest<unknown>
  readonly owner: string | undefined
  readonly tenant: string | undefined
  readonly context: unknown

  constructor(request: HttpRequest<unknown>, origin: Pick<BulkCall, 'owner' | 'tenant' | 'context'>) {
    this.#request = request
    this.owner = origin.owner
    this.tenant = origin.tenant
    this.context = origin.context
  }

  get signal(): AbortSignal { return this.#request.signal }
  get gone(): boolean | undefined { return this.#request.gone }
}

/** One request, or one attempt of a task. */
export interface BulkRun<T> {
  readonly settings: BulkSettings<T>
  readonly call: BulkCall
  /** The attempt of the task. Absent for a synchronous request, which nothing repeats. */
  readonly attempt?: { readonly isLast: boolean } | undefined
  /** Passes an error to `onError`, up to ten times in one run. */
  readonly reportError: (error: unknown) => void
}

export function startRun<T>(
  settings: BulkSettings<T>, call: BulkCall, attempt?: BulkRun<T>['attempt'],
): BulkRun<T> {
  return { settings, call, attempt, reportError: errorReports(settings.onError, call) }
}

/** Returns true if the repository says that it wrote nothing, and that a later call may succeed. */
function isUnavailable(error: unknown): error is HttpError {
  return isHttpError(error) && (error.status === 503 || error.status === 429)
}

/** Returns true if an error of a write ends this run, and the next attempt repeats the write. */
export function isRepeated<T>({ attempt }: BulkRun<T>, error: unknown, isExact: boolean): boolean {
  if (attempt === undefined) return false
  if (isUnavailable(error)) return true
  const isRefusal = isForClient(error) && readFailure(error).status < 500
  return isExact && !attempt.isLast && !isRefusal
}

export function writeItems<T>(
  run: BulkRun<T>, items: readonly T[], call: BulkCall,
): Promise<readonly RecordOutcome[]> {
  const { many } = run.settings.writer
  return many ? writeMany(run, items, many, call) : writeOneByOne(run, items, call)
}

async function writeMany<T>(
  run: BulkRun<T>, items: readonly T[], many: NonNullable<Writer<T>['many']>, call: BulkCall,
): Promise<readonly RecordOutcome[]> {
  const { settings: { resume }, attempt, reportError } = run
  try {
    return outcomesOf(run, items, await many(items, call))
  } catch (error) {
    if (isReplaced(error)) throw error
    const isAgain = isRepeated(run, error, resume !== undefined)
    if (!isAgain) reportError(error)
    const outcome = isUnavailable(error) ? rejectedBy(error) : UNKNOWN_OUTCOME
    const outcomes = isAgain ? [] : items.map(() => outcome)
    if (attempt === undefined) return outcomes
    // A write that was aborted may have failed for that reason. A later run repeats it.
    if (isAborted(call)) throw new InterruptedWrite(outcomes, call.signal.reason)
    if (isAgain) throw new InterruptedWrite([], error)
    return endUnlessLast(run, outcomes)
  }
}

/**
 * Ends the run after outcomes of which some are unknown, if there is another attempt: the database
 * may be unavailable, so the next batch waits for it.
 */
function endUnlessLast<T>(
  { settings: { resume }, attempt }: BulkRun<T>, outcomes: readonly RecordOutcome[],
): readonly RecordOutcome[] {
  if (resume !== undefined || attempt === undefined || attempt.isLast) return outcomes
  throw new InterruptedWrite(outcomes, httpError('write_outcome_unknown'))
}

async function writeOneByOne<T>(
  run: BulkRun<T>, items: readonly T[], call: BulkCall,
): Promise<readonly RecordOutcome[]> {
  const { settings: { writer, concurrency } } = run
  const outcomes: RecordOutcome[] = []
  let next = 0
  let known = 0
  let stop: { readonly error: unknown } | undefined
  const worker = async (): Promise<void> => {
    while (next < items.length && !stop && !isAborted(call)) {
      const at = next++
      const item = items[at] as T
      try {
        outcomes[at] = outcomeOf(run, item, await writer.one(item, call))
      } catch (error) {
        if (isHttpError(error) && isRepeated(run, error, false)) {
          outcomes[at] = rejectedBy(error)
          stop ??= { error }
          continue
        }
        outcomes[at] = outcomeOfError(error, UNKNOWN_OUTCOME, run.reportError)
      }
      known = Math.max(known, at + 1)
    }
  }
  await Promise.all(Array.from({ length: Math.min(concurrency, items.length) }, worker))
  if (stop) {
    if (known < items.length) throw new InterruptedWrite(outcomes.slice(0, known), stop.error)
  } else if (next < items.length) {
    for (let at = next; at < items.length; at++) outcomes.push(NOT_APPLIED)
    throw new InterruptedWrite(outcomes, call.signal.reason)
  }
  if (!outcomes.includes(UNKNOWN_OUTCOME)) return outcomes
  if (run.attempt && isAborted(call)) throw new InterruptedWrite(outcomes, call.signal.reason)
  return endUnlessLast(run, outcomes)
}

/** Writes items inside a transaction: slices of `batchSize`, or one item after the other. */
export async function writeInside<T>(
  run: BulkRun<T>, items: readonly T[], { many, one }: Writer<T>, outcomes: RecordOutcome[],
): Promise<void> {
  const { settings: { batchSize }, call } = run
  while (outcomes.length < items.length) {
    throwIfAborted(call)
    const from = outcomes.length
    if (many) {
      const slice = items.slice(from, from + batchSize)
      outcomes.push(...outcomesOf(run, slice, await many(slice, call)))
      continue
    }
    const item = items[from] as T
    try {
      outcomes.push(outcomeOf(run, item, await one(item, call)))
    } catch (error) {
      if (isRepeated(run, error, !isForClient(error))) throw error
      const outcome = outcomeOfError(error, NOT_WRITTEN, run.reportError)
      outcomes.push(outcome)
      if (outcome === NOT_WRITTEN) return
    }
  }
}

/** Reads what `createMany` or `updateMany` returned. */
export function outcomesOf<T>(
  run: BulkRun<T>, items: readonly T[], written: readonly unknown[],
): RecordOutcome[] {
  if (!Array.isArray(written)) throw new TypeError('The repository returned no array of outcomes')
  if (written.length !== items.length) {
    throw new TypeError(`The repository returned ${written.length} outcomes`
      + ` for ${items.length} records; return one for each`)
  }
  return readEach(written, (each, at) => outcomeOf(run, items[at] as T, each))
}

function outcomeOf<T>({ settings, reportError }: BulkRun<T>, item: T, written: unknown): RecordOutcome {
  const returned = readReturned(written, 'The repository')
  if (returned instanceof FailedRecord) {
    return outcomeOfError(returned.error, NOT_WRITTEN, reportError)
  }
  if (returned !== undefined) return { id: checkedId(settings.idOf(returned, item)) }
  if (settings.kind === 'update') return failed('not_found', 'There is no such record.')
  throw new TypeError('The repository returned no record for an item; create must return the record')
}

function checkedId(id: ItemId | undefined): ItemId | undefined {
  if (id === undefined || typeof id === 'string' || Number.isFinite(id)) return id
  throw new TypeError('The option id must return a string or a finite number')
}
