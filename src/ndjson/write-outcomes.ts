import { isJsonObject } from '../http/body/json.js'
import { rejectEmptied } from '../tasks/definition/json-values.js'
import { NOT_WRITTEN, outcomeOfError, type RecordOutcome } from '../records/outcome.js'
import { FailedRecord, isError, readEach, readReturned } from '../repositories/returned.js'

/**
 * Outcome of one record, as `write` may return it. `undefined` and `null`: it was written. An
 * `Error` or a rejected result of `Promise.allSettled`: it was not written. A record with its `id`,
 * alone or in a fulfilled result: it was written.
 */
export type WriteOutcome = RecordOutcome | Error | PromiseSettledResult<unknown> | null | undefined

/**
 * Reads what `write` returned.
 * @throws {TypeError} It is no list with one outcome for each record, or has an unknown value.
 */
export function readOutcomes(
  returned: unknown, count: number, report: (error: unknown) => void,
): (RecordOutcome | undefined)[] | undefined {
  if (returned === undefined || returned === null) return undefined
  const values: readonly unknown[] = Array.isArray(returned) ? returned : []
  if (values !== returned || values.length !== count) {
    const what = values === returned ? `${values.length} outcomes` : 'no list of outcomes'
    throw new TypeError(`write returned ${what} for ${count} records; return one for each, or nothing`)
  }
  return readEach(values, (value) => readOutcome(value, report))
}

function readOutcome(value: unknown, report: (error: unknown) => void): RecordOutcome | undefined {
  const own = isJsonObject(value) && !isError(value) ? ownOutcome(value, report) : undefined
  if (own !== undefined) return own
  const returned = readReturned(value, 'write')
  if (returned instanceof FailedRecord) return outcomeOfError(returned.error, NOT_WRITTEN, report)
  const { id } = (returned ?? {}) as { readonly id?: unknown }
  return isId(id) ? { id } : undefined
}

const OUTCOME = new Set(['status', 'id', 'result', 'error'])

type AnyObject = Readonly<Record<string, unknown>>

/** Returns a `RecordOutcome`; `undefined` for an object that is none. */
function ownOutcome(value: AnyObject, report: (error: unknown) => void): RecordOutcome | undefined {
  const { status, id, error } = value
  if (isRecord(value)) return undefined
  const isStatus = Number.isInteger(status)
  if (error === undefined || error === null) {
    if (!isStatus) return undefined
    checkResult(value['result'])
    if (Number(status) >= 200 && Number(status) < 400 && (id === undefined || isId(id))) return value
    throw new TypeError(`write returned the status ${String(status)} without an error, or a wrong id`)
  }
  if (isError(error)) return outcomeOfError(error, NOT_WRITTEN, report)
  const isFault = isJsonObject(error)
    && typeof error['code'] === 'string' && typeof error['message'] === 'string'
    && (error['details'] === undefined || Array.isArray(error['details']))
  const isFailed = status === undefined || (isStatus && Number(status) >= 400 && Number(status) < 600)
  if (isFault && isFailed && (id === undefined || isId(id))) return value
  throw new TypeError('write returned an error without code and message; return { status, error: { code, message } }')
}

/** @throws {TypeError} JSON cannot carry the value. */
function checkResult(result: unknown): void {
  if (result === undefined) return
  try {
    rejectEmptied(result, JSON.stringify(result))
  } catch (error) {
    throw new TypeError(`write returned a result that is not JSON: ${(error as Error).message}`)
  }
}

/**
 * Returns true for a record that has its own `status`, such as 1, or a text in `error`. An error
 * status stays the status of an outcome, so that a failure in an unknown form is no success.
 */
function isRecord(value: AnyObject): boolean {
  const { status, id, error } = value
  if (!isId(id) || (Number(status) >= 200 && Number(status) < 600)) return false
  if (error === undefined || error === null) return true
  return typeof error === 'string' && Object.keys(value).some((name) => !OUTCOME.has(name))
}

function isId(id: unknown): id is string | number {
  return typeof id === 'string' || Number.isFinite(id)
}
