import type { StandardSchemaV1 } from '@standard-schema/spec'
import { cutText } from '../runtime/cut-text.js'
import type { ErrorDetail } from '../http/errors.js'
import type { MaybePromise } from '../runtime/maybe-promise.js'
import { toPointer } from './pointer.js'
import type { Schema } from './schema.js'

/** How many things that are wrong an answer lists at most. */
export const MAX_DETAILS = 20

/** Longer messages are cut: some libraries echo the client's keys and values in them. */
const MAX_MESSAGE = 300

/** A good value, or what is wrong with it. Tell them apart by `'details' in`. */
export type Validation<T> = { readonly value: T } | { readonly details: ErrorDetail[] }

/**
 * Checks `value` against any Standard Schema: the value that comes out, or up to 20 details, each
 * with a JSON pointer (RFC 6901). A schema that answers synchronously is not awaited. What a
 * validator itself throws or rejects with comes through as it is: that is a defect of the host, not
 * of the input.
 */
export function validate<T>(schema: Schema<T>, value: unknown): MaybePromise<Validation<T>> {
  const result = schema['~standard'].validate(value)
  return 'then' in result ? result.then(toValidation) : toValidation(result)
}

/**
 * `validate` for one record of many: a validator that recurses, and a record that is nested a
 * hundred thousand deep, is the record's fault.
 */
export function judge<T>(schema: Schema<T>, record: unknown): MaybePromise<Validation<T>> {
  try {
    return validate(schema, record)
  } catch (error) {
    if (error instanceof RangeError) return { details: [{ pointer: '', message: 'is nested too deeply' }] }
    throw error
  }
}

function toValidation<T>(result: StandardSchemaV1.Result<T>): Validation<T> {
  return result.issues ? { details: toDetails(result.issues) } : result
}

function toDetails(issues: readonly StandardSchemaV1.Issue[]): ErrorDetail[] {
  const details = issues.slice(0, MAX_DETAILS).map(({ message, path }) => ({
    pointer: toPointer(path),
    message: cutText(message, MAX_MESSAGE),
  }))
  return details.length > 0 ? details : [{ pointer: '', message: 'is not valid' }]
}
