import type { Operation } from '../http/exchange.js'
import { flag, readOptions, value, type OptionTable } from '../runtime/options.js'
import { isSchema, toDocumentSchema, type Schema } from '../schema/schema.js'
import { joinDescriptions, unexpectedError } from './errors.js'
import type { Fragment } from './fragment.js'
import { nameRoot } from './definitions.js'

export type { Fragment }

/** Schema of a body: a JSON Schema, or a Standard Schema. */
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
  /** Callback objects by name: requests that the server sends because of this one. */
  readonly callbacks?: Readonly<Record<string, Fragment>>
  /** Security requirements. They take precedence over those of the document. */
  readonly security?: readonly Fragment[]
  /** Marks the operation as deprecated. */
  readonly deprecated?: boolean
}

const OPERATION = {
  summary: value(), description: value(), tags: value(), operationId: value(),
  parameters: value(), requestBody: value(), responses: value(), callbacks: value(),
  security: value(),
  deprecated: flag(),
} satisfies OptionTable<OperationOptions>

/**
 * Creates the OpenAPI 3.1 operation of a handler for one method (upper case).
 * @example
 * const described = describe(handler, [operation('GET', {
 *   summary: 'Shows the time', responses: { 200: response('The time') },
 * })])
 */
export function operation(method: string, options: OperationOptions): Operation {
  return { method, openapi: { ...readOptions('operation', options, OPERATION) } }
}

/** Creates the operations of GET and HEAD, whose responses have the same headers. */
export function readOperations(options: OperationOptions): readonly Operation[] {
  return [
    operation('GET', options), operation('HEAD', { ...options, summary: 'The headers of GET' }),
  ]
}

export function schemaObject(schema: BodySchema, side: 'input' | 'output' = 'input'): Fragment {
  return nameRoot(isSchema(schema) ? toDocumentSchema(schema, side) ?? {} : schema)
}

/** Options of `parameter`. */
export interface ParameterOptions {
  /** Description in CommonMark. */
  readonly description?: string
  /** If `true`, the parameter must be sent. Default: false. A path parameter is always required. */
  readonly required?: boolean
  /** Schema of the value. Default: a string. */
  readonly schema?: BodySchema
}

const PARAMETER = {
  description: value(), required: flag({ default: false }), schema: value(),
} satisfies OptionTable<ParameterOptions>

/**
 * Creates a parameter object.
 * @example
 * parameter('query', 'limit', { schema: { type: 'integer' } })
 */
export function parameter(
  where: 'query' | 'header' | 'path', name: string, options: ParameterOptions = {},
): Fragment {
  const { required, schema = { type: 'string' }, ...rest } =
    readOptions('parameter', options, PARAMETER)
  return {
    name, in: where, ...rest, required: required || where === 'path', schema: schemaObject(schema),
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

const BODY = {
  description: value(), required: flag({ default: true }), mediaTypes: value(),
} satisfies OptionTable<BodyOptions>

/**
 * Creates a request body object.
 * @example
 * body({ type: 'object' }, { required: true })
 */
export function body(schema: BodySchema, options: BodyOptions = {}): Fragment {
  const { mediaTypes, ...rest } = readOptions('body', options, BODY)
  return { ...rest, content: content(schemaObject(schema), mediaTypes) }
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

const RESPONSE = {
  headers: value(), schema: value(), mediaTypes: value(),
} satisfies OptionTable<ResponseOptions>

/**
 * Creates a response object.
 * @example
 * response('The user', { schema: { type: 'object' } })
 */
export function response(description: string, options: ResponseOptions = {}): Fragment {
  const { headers, schema, mediaTypes } = readOptions('response', options, RESPONSE)
  return {
    description,
    ...(headers && { headers }),
    ...(schema && { content: content(schemaObject(schema, 'output'), mediaTypes) }),
  }
}

/**
 * Creates a header object, for responses.
 * @example
 * header('Requests that are left', { type: 'integer' })
 */
export function header(description: string, schema: Fragment = { type: 'string' }): Fragment {
  return { description, schema }
}

function content(schema: Fragment, mediaTypes: readonly string[] = ['application/json']): Fragment {
  return Object.fromEntries(mediaTypes.map((mediaType) => [mediaType, { schema }]))
}

type Responses = Readonly<Record<string, Fragment>>

export function addResponses(
  operation: Operation, responses: Readonly<Record<string, Fragment>>,
): Operation {
  const own = operation.openapi['responses'] as Responses
  return changed(operation, { responses: joinByName(own, responses, joinResponses) })
}

/** Returns an operation with other properties in its OpenAPI object. */
export function changed(operation: Operation, changes: Fragment): Operation {
  return { ...operation, openapi: { ...operation.openapi, ...changes } }
}

/**
 * Adds headers to each successful response of an operation, and to `default`, which lists the headers
 * that all errors may have. A 304 has the headers of the 200.
 * @example
 * const [described] = handler.operations ?? []
 * if (described) addResponseHeaders(described, { 'X-Region': header('The region of the server') })
 */
export function addResponseHeaders(
  operation: Operation, headers: Readonly<Record<string, Fragment>>,
): Operation {
  const own = operation.openapi['responses'] as Responses
  const responses = { ...own, default: own['default'] ?? unexpectedError }
  return changed(operation, {
    responses: Object.fromEntries(Object.entries(responses).map(([status, response]) => {
      if (Number(status) >= 400 || status === '304') return [status, response]
      const joined = { ...headers, ...response['headers'] as Fragment | undefined }
      return [status, { ...response, headers: joined }]
    })),
  })
}

/** Adds headers to `default` alone: those that a client looks at when a request has failed. */
export function addErrorHeaders(
  operation: Operation, headers: Readonly<Record<string, Fragment>>,
): Operation {
  const { default: error = unexpectedError, ...own } = operation.openapi['responses'] as Responses
  const joined = { ...headers, ...error['headers'] as Fragment | undefined }
  return changed(operation, { responses: { ...own, default: { ...error, headers: joined } } })
}

export function addParameters(operation: Operation, parameters: readonly Fragment[]): Operation {
  const own = (operation.openapi['parameters'] ?? []) as readonly Fragment[]
  const added = parameters.filter((one) => !own.some((other) => (
    other['in'] === one['in'] && other['name'] === one['name']
  )))
  if (added.length === 0) return operation
  return changed(operation, { parameters: [...own, ...added] })
}

export function mergeOperations(first: Operation, second: Operation): Operation {
  const joined = addResponses(first, second.openapi['responses'] as Responses)
  // One that is partly deprecated is not deprecated.
  const deprecated = first.openapi['deprecated'] !== second.openapi['deprecated']
  const bodies = [first.openapi['requestBody'], second.openapi['requestBody']] as (Fragment | undefined)[]
  const [one, other] = bodies
  const requestBody = one && other ? joinContents(one, other) : one ?? other
  const callbacks = {
    ...second.openapi['callbacks'] as Fragment | undefined,
    ...first.openapi['callbacks'] as Fragment | undefined,
  }
  const merged = changed(joined, {
    ...requestBody && { requestBody }, ...deprecated && { deprecated: false },
    ...Object.keys(callbacks).length > 0 && { callbacks },
  })
  return addParameters(merged, (second.openapi['parameters'] ?? []) as readonly Fragment[])
}

function joinResponses(first: Fragment, second: Fragment): Fragment {
  const headers = {
    ...(second['headers'] as Fragment | undefined), ...(first['headers'] as Fragment | undefined),
  }
  return {
    ...joinContents(first, second),
    description: joinDescriptions(String(first['description']), String(second['description'])),
    ...Object.keys(headers).length > 0 && { headers },
  }
}

function joinContents(first: Fragment, second: Fragment): Fragment {
  const content = joinByName(
    (first['content'] ?? {}) as Responses, (second['content'] ?? {}) as Responses,
    (one, other) => ({ ...one, schema: eitherOf(one['schema'], other['schema']) }),
  )
  return { ...first, ...Object.keys(content).length > 0 && { content } }
}

function eitherOf(first: unknown, second: unknown): unknown {
  const all = [...choicesOf(first), ...choicesOf(second)]
  const distinct = [...new Map(all.map((schema) => [JSON.stringify(schema), schema])).values()]
  return distinct.length === 1 ? distinct[0] : { anyOf: distinct }
}

function choicesOf(schema: unknown): readonly unknown[] {
  const { anyOf, ...rest } = schema as { readonly anyOf?: readonly unknown[] }
  return anyOf !== undefined && Object.keys(rest).length === 0 ? anyOf : [schema]
}

function joinByName(
  first: Responses, second: Responses, join: (one: Fragment, other: Fragment) => Fragment,
): Responses {
  const all: Record<string, Fragment> = { ...first }
  for (const [name, value] of Object.entries(second)) {
    const there = all[name]
    all[name] = there === undefined || there === value ? value : join(there, value)
  }
  return all
}
