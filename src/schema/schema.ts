import type { StandardJSONSchemaV1, StandardSchemaV1 } from '@standard-schema/spec'
import { httpError } from '../http/errors.js'
import type { ErrorDetail } from '../wire/errors.js'
import type { MaybePromise } from '../runtime/maybe-promise.js'
import { cutText } from '../runtime/text.js'
import { toPointer } from './pointer.js'

/** A Standard Schema v1 (zod, valibot, arktype, …), or `jsonSchema()`, with output `T` and input `In`. */
export type Schema<T = unknown, In = unknown> = StandardSchemaV1<In, T>

/** A schema that can return its JSON Schema (Standard JSON Schema v1), for documents. */
export interface DescribedSchema<T = unknown, In = T> {
  readonly '~standard': StandardSchemaV1.Props<In, T> & StandardJSONSchemaV1.Props<In, T>
}

export function isSchema(value: unknown): value is Schema {
  // Some libraries (arktype) make schemas that are functions.
  const isObject = (typeof value === 'object' || typeof value === 'function') && value !== null
  if (!isObject || !('~standard' in value)) return false
  const standard = value['~standard']
  if (typeof standard !== 'object' || standard === null || !('validate' in standard)) return false
  return typeof standard.validate === 'function'
}

/** Asserts that `value` is a Standard Schema v1. */
export function assertSchema(value: unknown, where: string): asserts value is Schema {
  if (isSchema(value)) return
  const accepted = 'a zod, valibot or arktype schema, or jsonSchema({ … }) around a JSON Schema'
  throw new TypeError(`${where} must be a Standard Schema v1: ${accepted}`)
}

/**
 * Returns the JSON Schema 2020-12 of a schema, without `$schema`; `undefined` if its library does not
 * support Standard JSON Schema, as zod 4, arktype, and valibot through `toStandardJsonSchema` do.
 */
export function toJsonSchema(
  schema: Schema, side: 'input' | 'output' = 'input', libraryOptions?: Record<string, unknown>,
): Record<string, unknown> | undefined {
  const { jsonSchema } = schema['~standard'] as Partial<StandardJSONSchemaV1.Props>
  if (typeof jsonSchema?.[side] !== 'function') return undefined
  try {
    const { $schema: _, ...rest } = jsonSchema[side]({
      target: 'draft-2020-12', ...libraryOptions && { libraryOptions },
    })
    return rest
  } catch {
    // It throws if it cannot express the schema.
    return undefined
  }
}

/**
 * A `Date` is sent as text, and a value that JSON cannot express may be any value: zod, arktype,
 * then valibot.
 */
const DATE = { type: 'string', format: 'date-time' }
const LIBRARY_OPTIONS = {
  unrepresentable: 'any',
  override: ({ zodSchema, jsonSchema }: ZodPlace): void => {
    if (zodSchema._zod.def.type === 'date') Object.assign(jsonSchema, DATE)
  },
  fallback: { date: ({ base }: ArkPlace) => ({ ...base, ...DATE }), default: ({ base }: ArkPlace) => base },
  errorMode: 'ignore',
  overrideSchema: ({ valibotSchema }: ValibotPlace) => valibotSchema.type === 'date' ? DATE : undefined,
}

interface ZodPlace {
  readonly zodSchema: { readonly _zod: { readonly def: { readonly type: string } } }
  readonly jsonSchema: object
}
interface ArkPlace { readonly base: object }
interface ValibotPlace { readonly valibotSchema: { readonly type: string } }

/** Returns the JSON Schema of a schema for a document, in which a part may be any value. */
export function toDocumentSchema(
  schema: Schema, side: 'input' | 'output' = 'input',
): Record<string, unknown> | undefined {
  return toJsonSchema(schema, side, LIBRARY_OPTIONS)
}

/** Maximum number of details in an error response. */
export const MAX_DETAILS = 20

/** Maximum length of a message, in which some libraries repeat the client's keys and values. */
const MAX_MESSAGE = 300

/** A valid value, or the details of its errors. Test with `'details' in`. */
export type Validation<T> = { readonly value: T } | { readonly details: ErrorDetail[] }

/** Returns the validated value, or up to 20 details, each with a JSON pointer (RFC 6901). */
export function validate<T>(schema: Schema<T>, value: unknown): MaybePromise<Validation<T>> {
  const result = schema['~standard'].validate(value)
  return 'then' in result ? result.then(toValidation) : toValidation(result)
}

/**
 * Returns the validated value.
 * @throws {HttpError} 400 `invalid_input`, with the details
 */
export function validInput<T>(schema: Schema<T>, value: unknown): MaybePromise<T> {
  const result = schema['~standard'].validate(value)
  return 'then' in result ? result.then(toInput) : toInput(result)
}

function toInput<T>(result: StandardSchemaV1.Result<T>): T {
  if (!result.issues) return result.value
  throw httpError('invalid_input', { details: toDetails(result.issues) })
}

/**
 * Validates a record like `validate`. A record that is nested too deeply for the validator is not
 * valid.
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
 * Returns the message of an issue, without a regular expression, which zod (`pattern`), valibot
 * (`requirement`) and arktype (`rule`) repeat.
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
