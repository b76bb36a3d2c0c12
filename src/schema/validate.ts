import type { StandardSchemaV1 } from '@standard-schema/spec'
import { cutText } from '../runtime/text.js'
import type { ErrorDetail } from '../http/errors.js'
import type { MaybePromise } from '../runtime/maybe-promise.js'
import { toPointer } from './pointer.js'
import type { Schema } from './schema.js'

/** Maximum number of details in an error response. */
export const MAX_DETAILS = 20

/** Maximum length of a message. Some libraries repeat the client's keys and values in it. */
const MAX_MESSAGE = 300

/** A valid value, or the details of its errors. Test with `'details' in`. */
export type Validation<T> = { readonly value: T } | { readonly details: ErrorDetail[] }

/**
 * Validates `value` with any Standard Schema. Returns the validated value, or up to 20 details,
 * each with a JSON pointer (RFC 6901). A synchronous schema is not awaited. Errors that a validator
 * throws or rejects with are passed on: they are a defect of the host, not of the input.
 */
export function validate<T>(schema: Schema<T>, value: unknown): MaybePromise<Validation<T>> {
  const result = schema['~standard'].validate(value)
  return 'then' in result ? result.then(toValidation) : toValidation(result)
}

/**
 * Validates one record of many. A validator that recurses beyond the stack, because the record is
 * nested too deeply, makes the record invalid.
 */
export function judge<T>(schema: Schema<T>, record: unknown): MaybePromise<Validation<T>> {
  try {
    return validate(schema, record)
  } catch (error) {
    if (!(error instanceof RangeError)) throw error
    return { details: [{ pointer: '', message: 'is nested too deeply' }] }
  }
}

function toValidation<T>(result: StandardSchemaV1.Result<T>): Validation<T> {
  return result.issues ? { details: toDetails(result.issues) } : result
}

function toDetails(issues: readonly StandardSchemaV1.Issue[]): ErrorDetail[] {
  const details = issues.slice(0, MAX_DETAILS).map((issue) => ({
    pointer: toPointer(issue.path),
    message: cutText(plainMessage(issue), MAX_MESSAGE),
  }))
  return details.length > 0 ? details : [{ pointer: '', message: 'is not valid' }]
}

/**
 * Returns the message of an issue, without a regular expression. zod (`pattern`), valibot
 * (`requirement`) and arktype (`rule`) repeat that of the schema.
 */
function plainMessage(issue: StandardSchemaV1.Issue): string {
  const { message, pattern, requirement, rule } = issue as StandardSchemaV1.Issue & {
    readonly pattern?: unknown, readonly requirement?: unknown, readonly rule?: unknown,
  }
  const sources = [pattern, requirement instanceof RegExp ? requirement.source : rule]
  const repeats = sources.some((source) => (
    typeof source === 'string' && source !== '' && message.includes(source)
  ))
  return repeats ? 'does not match the pattern' : message
}
