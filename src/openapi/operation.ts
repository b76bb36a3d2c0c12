import type { Operation } from '../http/exchange.js'
import { checkNames } from '../runtime/option-names.js'
import { isSchema, type Schema } from '../schema/schema.js'
import { toJsonSchema } from '../schema/to-json-schema.js'

/** A piece of an OpenAPI document: plain data, never changed. */
export type Fragment = Readonly<Record<string, unknown>>

/**
 * Schema of a body: a JSON Schema, or a Standard Schema whose library may provide its JSON
 * Schema.
 */
export type BodySchema = Fragment | Schema

/** Options of `operation`. */
export interface OperationOptions {
  /** Short summary, one line. */
  readonly summary: string
  /** Description in CommonMark. */
  readonly description?: string
  /** Tags of the operation. */
  readonly tags?: readonly string[]
  /** Unique in the whole document. */
  readonly operationId?: string
  /** Made by `parameter()`. Parameters of the path may be left out: `router()` adds them. */
  readonly parameters?: readonly Fragment[]
  /** Made by `body()`. */
  readonly requestBody?: Fragment
  /** Response objects by status or `default`, made by `response()` and `errorResponses()`. */
  readonly responses: Readonly<Record<string, Fragment>>
  /** Security requirements of the operation. */
  readonly security?: readonly Fragment[]
  /** Marks the operation as deprecated. */
  readonly deprecated?: boolean
}

const OPERATION = {
  summary: 0, description: 0, tags: 0, operationId: 0, parameters: 0, requestBody: 0, responses: 0, security: 0, deprecated: 0,
} satisfies Record<keyof OperationOptions, 0>

/**
 * Creates the OpenAPI 3.1 operation of a handler for one method (upper case). The path comes from
 * the route.
 *
 * @example
 * const described = describe(handler, [operation('GET', {
 *   summary: 'Shows the time', responses: { 200: response('The time') },
 * })])
 */
export function operation(method: string, options: OperationOptions): Operation {
  checkNames('operation', options, OPERATION)
  return { method, openapi: { ...options } }
}

/**
 * Returns the schema object of a body. A JSON Schema stays as it is. A Standard Schema is what its
 * library exports, or `{}` (anything).
 */
export function schemaObject(schema: BodySchema, side: 'input' | 'output' = 'input'): Fragment {
  return isSchema(schema) ? toJsonSchema(schema, side) ?? {} : schema
}

/** Options of `parameter`. */
export interface ParameterOptions {
  /** Description in CommonMark. */
  readonly description?: string
  /** If `true`, the parameter must be sent. Default: false. A path parameter is always required. */
  readonly required?: boolean
  /** Schema of the value. Default: text. */
  readonly schema?: BodySchema
}

const PARAMETER = {
  description: 0, required: 0, schema: 0,
} satisfies Record<keyof ParameterOptions, 0>

/**
 * Creates a parameter object.
 *
 * @example
 * parameter('query', 'limit', { schema: { type: 'integer' } })
 */
export function parameter(
  where: 'query' | 'header' | 'path', name: string, options: ParameterOptions = {},
): Fragment {
  checkNames('parameter', options, PARAMETER)
  return {
    name,
    in: where,
    ...options,
    required: where === 'path' || (options.required ?? false),
    schema: schemaObject(options.schema ?? { type: 'string' }),
  }
}

/** Options of `body`. */
export interface BodyOptions {
  /** Description in CommonMark. */
  readonly description?: string
  /** If `false`, the body is optional. Default: true. */
  readonly required?: boolean
  /** Media types of the body. Default: `application/json` alone. */
  readonly mediaTypes?: readonly string[]
}

const BODY = { description: 0, required: 0, mediaTypes: 0 } satisfies Record<keyof BodyOptions, 0>

/**
 * Creates a request body object.
 *
 * @example
 * body({ type: 'object' }, { required: true })
 */
export function body(schema: BodySchema, options: BodyOptions = {}): Fragment {
  checkNames('body', options, BODY)
  const { mediaTypes, ...rest } = options
  return { required: true, ...rest, content: content(schemaObject(schema), mediaTypes) }
}

/** Options of `response`. */
export interface ResponseOptions {
  /** Header objects by name, made by `header()`. */
  readonly headers?: Readonly<Record<string, Fragment>>
  /** Schema of the body. Default: no body. */
  readonly schema?: BodySchema
  /** Media types of the body. Default: `application/json` alone. */
  readonly mediaTypes?: readonly string[]
}

const RESPONSE = { headers: 0, schema: 0, mediaTypes: 0 } satisfies Record<keyof ResponseOptions, 0>

/**
 * Creates a response object.
 *
 * @example
 * response('The user', { schema: { type: 'object' } })
 */
export function response(description: string, options: ResponseOptions = {}): Fragment {
  checkNames('response', options, RESPONSE)
  const { headers, schema, mediaTypes } = options
  return {
    description,
    ...(headers && { headers }),
    ...(schema && { content: content(schemaObject(schema, 'output'), mediaTypes) }),
  }
}

/**
 * Creates a header object, for responses.
 *
 * @example
 * header('Requests that are left', { type: 'integer' })
 */
export function header(description: string, schema: Fragment = { type: 'string' }): Fragment {
  return { description, schema }
}

function content(schema: Fragment, mediaTypes: readonly string[] = ['application/json']): Fragment {
  return Object.fromEntries(mediaTypes.map((mediaType) => [mediaType, { schema }]))
}
