import type { ErrorDetail } from '../wire/errors.js'
import { inexactParsed, inexactReason } from '../http/body/exact-json.js'
import { isJsonObject, isTooDeep, MAX_JSON_DEPTH } from '../http/body/json.js'
import type { BatchSettings, Judge } from '../records/batch.js'
import { findDuplicates as findDuplicateKeys } from '../records/duplicates.js'
import { failed, NOT_WRITTEN, type FailedOutcome } from '../records/outcome.js'
import { judge, type Validation } from '../schema/schema.js'
import type { BulkSettings } from './options.js'
import type { BulkRun } from './write.js'

/** Returns the function that validates an item. An error of the schema fails its item. */
export function judgeItems<T>({ settings: { schema }, reportError }: BulkRun<T>): Judge<T> {
  const masked = (error: unknown): FailedOutcome => {
    reportError(error)
    return NOT_WRITTEN
  }
  return (item, wellFormed) => {
    if (!wellFormed || !isPlain(item)) {
      if (isTooDeep(item)) return invalid([{ pointer: '', message: 'is nested too deeply' }])
      const details = inexactParsed(item)
      if (details.length > 0) {
        return failed('inexact_value', 'A value cannot be kept as it was sent.', details)
      }
    }
    if (schema === undefined) {
      if (isJsonObject(item)) return { value: item as T }
      return invalid([{ pointer: '', message: 'must be object' }])
    }
    try {
      const validation = judge(schema, item)
      if (!(validation instanceof Promise)) return verdictOf(validation)
      return validation.then(verdictOf).catch(masked)
    } catch (error) {
      return masked(error)
    }
  }
}

function verdictOf<T>(validation: Validation<T>): { readonly value: T } | FailedOutcome {
  return 'details' in validation ? invalid(validation.details) : validation
}

function invalid(details: readonly ErrorDetail[]): FailedOutcome {
  return failed('invalid_input', 'The item is not valid.', details)
}

export function findDuplicates<T>({ key }: BulkSettings<T>): BatchSettings<T>['compare'] {
  return key && findDuplicateKeys(key, (number) => (
    `Item ${number - 1} of this batch has the same key, so this item was not written.`
  ))
}

/** Returns true if a value is not nested too deeply, and its numbers are certainly as sent. */
function isPlain(value: unknown, depthLeft = MAX_JSON_DEPTH): boolean {
  if (typeof value === 'number') return inexactReason(value) === undefined
  if (typeof value !== 'object' || value === null) return true
  if (depthLeft === 0) return false
  if (Array.isArray(value)) return value.every((each) => isPlain(each, depthLeft - 1))
  for (const key in value) {
    const child = (value as Readonly<Record<string, unknown>>)[key]
    if (typeof child !== 'string' && !isPlain(child, depthLeft - 1)) return false
  }
  return true
}
