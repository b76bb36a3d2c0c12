import type { ErrorObject, Format, ValidateFunction } from 'ajv/dist/2020.js'
import type { StandardSchemaV1 } from '@standard-schema/spec'
import { codeGenerationAdvice } from '../runtime/warning.js'
import { flag, readOptions, value as anyValue, type OptionTable } from '../runtime/options.js'
import { loadAjv } from './ajv.js'
import { fromPointer } from './pointer.js'
import { MAX_DETAILS, type DescribedSchema } from './schema.js'
import { hasAtMost } from '../runtime/json.js'
import { linearUniqueItems } from './unique-items.js'

/** The dialect of OpenAPI 3.1. */
const DIALECT = 'https://json-schema.org/draft/2020-12/schema'

/** Maximum number of properties and items of a value for which all errors are collected. */
const MAX_COLLECTED_FROM = 1000

/** Annotations of OpenAPI, which ajv's strict mode would reject. */
const ANNOTATIONS = ['discriminator', 'example', 'externalDocs', 'xml']

/** Options of `jsonSchema`. */
export interface JsonSchemaOptions {
  /**
   * Checks for the `format` keyword, by name: a pattern, a function, or `true` to accept any
   * string. If set, it must list all formats of the schema. Default: `format` checks nothing, as in
   * 2020-12.
   */
  readonly formats?: Readonly<Record<string, RegExp | ((text: string) => boolean) | true>>
  /** Sets missing properties to their `default`, **in the value that is checked**. Default: false. */
  readonly useDefaults?: boolean
}

const OPTIONS = {
  formats: anyValue(), useDefaults: flag({ default: false }),
} satisfies OptionTable<JsonSchemaOptions>

/**
 * Compiles a schema from JSON Schema 2020-12 with ajv. `T` is the type of the values that it
 * accepts, as declared by the application.
 *
 * The check is strict: it coerces nothing, and rejects unknown keywords. Errors of small values are
 * listed, up to 20; large values stop at the first. A regular expression with nested repetition, such as
 * `^(a+)+$`, takes exponential time. In a Worker, call this while the module is loaded, because code
 * generation is forbidden later; each value then stops at the first error.
 *
 * @example
 * const input = jsonSchema<{ year: number }>({
 *   type: 'object', required: ['year'], properties: { year: { type: 'integer' } },
 * })
 *
 * @throws {TypeError} The schema is not valid, or the runtime forbids code generation.
 */
export function jsonSchema<T = unknown, In = T>(
  schema: object, options: JsonSchemaOptions = {},
): DescribedSchema<T, In> {
  const settings = readOptions('jsonSchema', options, OPTIONS)
  const own = checked(schema)
  const first = compile(own, settings, false)
  let all: Check | undefined

  const run = (value: unknown): StandardSchemaV1.Result<T> => {
    try {
      if (first.validate(value)) return { value: value as T }
      if (!hasAtMost(value, MAX_COLLECTED_FROM)) {
        return { issues: ajvIssues(first.validate.errors ?? [], MAX_DETAILS, own) }
      }
      all ??= compileAll(own, settings) ?? first
      all.validate(value)
      const errors = all.validate.errors ?? first.validate.errors ?? []
      return { issues: ajvIssues(errors, MAX_DETAILS, own) }
    } catch (error) {
      // A recursive schema recurses as deep as the value does.
      if (error instanceof RangeError) return { issues: [{ message: 'is nested too deeply' }] }
      throw error
    } finally {
      first.end()
      all?.end()
    }
  }

  const describe = ({ target }: { target: string }): Record<string, unknown> => {
    if (target !== 'draft-2020-12') {
      throw new Error(`jsonSchema: only the target draft-2020-12 is supported, not ${target}`)
    }
    return structuredClone(own)
  }
  const json = { input: describe, output: describe }
  return { '~standard': { version: 1, vendor: 'longhaul', validate: run, jsonSchema: json } }
}

/** Returns a copy, so that later changes to the original have no effect. */
function checked(schema: object): Record<string, unknown> {
  if (typeof schema !== 'object' || schema === null || Array.isArray(schema)) {
    throw new TypeError('jsonSchema: pass a JSON Schema object such as { type: "object", … }')
  }
  let own: Record<string, unknown>
  try {
    own = structuredClone(schema) as Record<string, unknown>
  } catch (cause) {
    const advice = 'pass schemas of zod, valibot and others as they are'
    throw new TypeError(`jsonSchema: the schema must be plain data; ${advice}`, { cause })
  }
  const named = own['$schema']
  if (named !== undefined && named !== DIALECT && named !== `${DIALECT}#`) {
    const advice = `port the schema and set $schema to ${DIALECT}`
    const name = JSON.stringify(named)
    throw new TypeError(`jsonSchema: only JSON Schema 2020-12 is supported, not ${name}; ${advice}`)
  }
  if (own['$async'] !== undefined) {
    const advice = 'use a schema library for asynchronous checks'
    throw new TypeError(`jsonSchema: $async schemas are not supported; ${advice}`)
  }
  return own
}

interface Check {
  readonly validate: ValidateFunction
  /** Releases the client's keys and values that the last validation still holds. */
  readonly end: () => void
}

function compile(schema: object, options: JsonSchemaOptions, allErrors: boolean): Check {
  // A shared instance would keep every schema for ever, and could not have two with the same $id.
  const Ajv2020 = loadAjv()
  const ajv = new Ajv2020({
    allErrors,
    meta: false,
    validateSchema: false,
    logger: false,
    strictSchema: true,
    strictRequired: false,
    strictTypes: false,
    strictTuples: false,
    coerceTypes: false,
    useDefaults: options.useDefaults ?? false,
    validateFormats: options.formats !== undefined,
    formats: { ...(options.formats as Record<string, Format> | undefined) },
  })
  ajv.addVocabulary(ANNOTATIONS)
  try {
    const isUsed = JSON.stringify(schema).includes('"uniqueItems"')
    const forget = isUsed ? linearUniqueItems(ajv) : undefined
    const validate = ajv.compile(schema)
    const end = () => {
      validate.errors = null
      forget?.()
    }
    return { validate, end }
  } catch (cause) {
    throw unusable(cause)
  }
}

/** Returns `undefined` if code generation is forbidden. */
function compileAll(schema: object, options: JsonSchemaOptions): Check | undefined {
  try {
    return compile(schema, options, true)
  } catch (error) {
    if ((error as Error).cause instanceof EvalError) return undefined
    throw error
  }
}

function unusable(cause: unknown): TypeError {
  const why = cause instanceof Error ? cause.message : String(cause)
  const advice = codeGenerationAdvice(cause)
  if (advice !== undefined) {
    const message = `jsonSchema: ${advice}, or pass a schema of a library such as zod`
    return new TypeError(message, { cause })
  }
  return new TypeError(`jsonSchema: the schema cannot be used: ${why}${hint(why)}`, { cause })
}

function hint(why: string): string {
  if (why.includes('unknown format')) {
    return '; add it to the option formats (true accepts every string)'
  }
  if (why.includes('unknown keyword')) return '; check its spelling, or leave it out'
  if (why.includes("can't resolve reference")) {
    return '; put what it refers to under $defs of this schema'
  }
  return ''
}

/** Maximum length of allowed values and of a title in a message. */
const MAX_NAMED = 120

/** Messages for the usual formats of JSON Schema. */
const FORMATS: Readonly<Record<string, string>> = {
  'date': 'must be a date, such as 2026-12-24',
  'date-time': 'must be a date and a time, such as 2026-12-24T18:00:00Z',
  'duration': 'must be a duration, such as PT90M',
  'email': 'must be an e-mail address',
  'hostname': 'must be a host name',
  'idn-email': 'must be an e-mail address',
  'ipv4': 'must be an IPv4 address',
  'ipv6': 'must be an IPv6 address',
  'time': 'must be a time, such as 18:00:00Z',
  'uri': 'must be an absolute URI',
  'uri-reference': 'must be a URI, or a path',
  'url': 'must be a URL',
  'uuid': 'must be a UUID',
}

function ajvIssues(
  errors: readonly ErrorObject[], limit: number, schema: object,
): StandardSchemaV1.Issue[] {
  const issues: StandardSchemaV1.Issue[] = []
  for (const error of errors) {
    if (issues.length === limit) break
    // The error of `propertyNames` follows and knows the key. The list has the errors of an `if`, too.
    if (error.propertyName !== undefined || error.keyword === 'if') continue
    const key = culprit(error)
    const path = fromPointer(error.instancePath)
    const message = sentence(error, schema)
    issues.push({ message, path: key === undefined ? path : [...path, key] })
  }
  return issues
}

function culprit({ params }: ErrorObject): string | undefined {
  const named = params as Record<string, unknown>
  const key = named['missingProperty'] ?? named['additionalProperty']
    ?? named['unevaluatedProperty'] ?? named['propertyName']
  return typeof key === 'string' ? key : undefined
}

function sentence(error: ErrorObject, schema: object): string {
  const params = error.params as Record<string, unknown>
  switch (error.keyword) {
    case 'required': return 'is required'
    case 'dependentRequired':
    case 'dependencies': return `is required beside ${JSON.stringify(params['property'])}`
    case 'additionalProperties':
    case 'unevaluatedProperties':
    case 'not':
    case 'false schema': return 'is not allowed'
    case 'propertyNames': return 'is not an allowed name'
    case 'type': return `must be ${[params['type']].flat().join(' or ')}`
    case 'pattern': return misfit(error, schema)
    case 'format': {
      const format = String(params['format'])
      return FORMATS[format] ?? `must have the format ${format}`
    }
    case 'const': return allowed('must be', [params['allowedValue']]) ?? 'is not the allowed value'
    case 'enum':
      return allowed('must be one of', params['allowedValues'])
        ?? 'is not one of the allowed values'
    case 'anyOf': return 'must match at least one of the allowed forms'
    case 'oneOf': return 'must match exactly one of the allowed forms'
    case 'uniqueItems':
      return `must not have equal items (${String(params['j'])} and ${String(params['i'])} are)`
    default: return (error.message ?? 'is not valid').replace(' NOT ', ' not ')
  }
}

function misfit({ schemaPath }: ErrorObject, schema: object): string {
  let beside: unknown = schema
  for (const key of fromPointer(schemaPath.replace(/^#/, '')).slice(0, -1)) {
    beside = (beside as Record<string, unknown> | undefined)?.[key]
  }
  const { title, description } = (beside ?? {}) as Record<string, unknown>
  const text = title ?? description
  const isShort = typeof text === 'string' && text !== '' && text.length <= MAX_NAMED
  return isShort ? `does not match the pattern: ${text}` : 'does not match the pattern'
}

function allowed(start: string, values: unknown): string | undefined {
  if (!Array.isArray(values)) return undefined
  const text = values.map((value) => JSON.stringify(value)).join(', ')
  return text.length <= MAX_NAMED ? `${start} ${text}` : undefined
}
