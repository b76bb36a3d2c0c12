import { describe, type Handler, type HttpRequest, type HttpResponse, type Operation } from '../http/exchange.js'
import { NDJSON_TYPES } from '../http/headers/ndjson-types.js'
import {
  body, header, operation, parameter, readOperations, response, schemaObject, type BodySchema, type Fragment,
} from '../openapi/operation.js'
import { notModified } from '../openapi/errors.js'
import { errorResponses, responseHeaders, headerParameters, type knownHeaders } from '../openapi/responses.js'
import type { MaybePromise } from '../runtime/maybe-promise.js'
import type { Schema } from '../schema/schema.js'
import type { PageSizes } from './pages.js'

/** Media types of a PATCH. Both are read as a merge patch (RFC 7396). */
export const PATCH_TYPES = ['application/merge-patch+json', 'application/json']

interface Described {
  readonly item?: BodySchema
  readonly schema: Schema
  readonly changeSchema?: Schema
  readonly requirePreconditions?: boolean
}

/** Errors of requests with a body. */
const REFUSED = [
  'invalid_input', 'malformed_json', 'digest_mismatch', 'invalid_header', 'missing_body',
  'nested_too_deep', 'inexact_value', 'unsafe_key', 'body_too_large', 'conflict', 'unsupported_media_type',
  'idempotency_not_supported', 'too_many_requests', 'overloaded',
] as const

type Method = 'GET' | 'POST' | 'PUT' | 'PATCH' | 'DELETE'
type Answer = (request: HttpRequest) => MaybePromise<HttpResponse>

export function collectionOperations(
  { item = { type: 'object' }, schema, changeSchema, requirePreconditions = false }: Described,
) {
  const { ifMatch, ifNoneMatch, prefer, contentDigest } = headerParameters
  const shown = (status: string, ...names: readonly (keyof typeof knownHeaders)[]): Fragment =>
    response(status, { schema: item, headers: responseHeaders(...names) })
  const conditions = {
    ...errorResponses('precondition_failed'),
    ...requirePreconditions && errorResponses('precondition_required'),
  }
  const refused = errorResponses(...REFUSED)
  // RFC 5789 section 2.2.
  const { 415: unsupported } = errorResponses('unsupported_media_type')
  const acceptPatch = header('The media types of a change that are accepted')
  const patchFields = { ...unsupported?.['headers'] as Fragment, 'Accept-Patch': acceptPatch }
  const otherType = { 415: { ...unsupported, headers: patchFields } }
  const minimal = response('Done, and no body was wanted', {
    headers: responseHeaders('ETag', 'Preference-Applied'),
  })
  const preferred = ['Content-Location', 'Preference-Applied'] as const
  const made = shown('Created', 'ETag', 'Location', ...preferred)
  const changed = shown('As it is now', 'ETag', ...preferred)

  const about: Record<Method, Omit<Parameters<typeof operation>[1], 'operationId'>> = {
    GET: {
      summary: 'Read a record', parameters: [ifMatch, ifNoneMatch], responses: {
        200: shown('The record', 'ETag'),
        304: notModified,
        ...errorResponses('not_found', 'not_acceptable', 'precondition_failed'),
      },
    },
    POST: {
      summary: 'Create a record', parameters: [prefer, contentDigest],
      requestBody: body(schema), responses: { 201: made, ...refused },
    },
    PUT: {
      summary: 'Replace a record, or create it', parameters: [ifMatch, ifNoneMatch, prefer, contentDigest],
      requestBody: body(schema),
      responses: { 200: changed, 201: made, 204: minimal, ...refused, ...conditions },
    },
    PATCH: {
      summary: 'Change some properties of a record', parameters: [ifMatch, ifNoneMatch, prefer, contentDigest],
      requestBody: body(changeSchema ?? { type: 'object' }, {
        mediaTypes: PATCH_TYPES, description: 'A merge patch (RFC 7396)',
      }),
      responses: {
        200: changed, 204: minimal, ...refused, ...otherType, ...conditions,
        ...errorResponses('not_found'),
      },
    },
    DELETE: {
      summary: 'Remove a record', parameters: [ifMatch, ifNoneMatch],
      responses: {
        204: response('Gone'), ...conditions,
        ...errorResponses('not_found', 'idempotency_not_supported'),
      },
    },
  }
  return (method: Method, answer: Answer): Handler => describe(answer, (
    method === 'GET' ? readOperations(about.GET) : [operation(method, about[method])]
  ))
}

export function listOperations(
  { batchSize, maxBatchSize, paging }: PageSizes, item: BodySchema,
): readonly Operation[] {
  const record = schemaObject(item, 'output')
  const byPosition = paging === 'position'
  const count = { type: 'integer', minimum: 0 }
  const page: Fragment = {
    title: 'Record page',
    type: 'object',
    required: ['items', 'batch_size'],
    properties: {
      items: { type: 'array', items: record },
      start: { ...count, description: 'The position of the first record' },
      batch_size: { type: 'integer', description: 'How many records a page has at most' },
      total: { ...count, description: 'How many records there are, where that is known' },
      next: { type: 'string', description: 'The path of the next page; absent at the end' },
    },
  }
  const unit = header('The range unit that is understood (RFC 9110 section 14.3)', {
    type: 'string', const: 'items',
  })
  const headers = {
    ...responseHeaders('ETag', 'Link'),
    ...byPosition && { 'Accept-Ranges': unit },
  }
  const shown = { schema: page, headers }
  const parameters = [
    parameter('query', 'batch_size', {
      description: `Records of a page; more than ${maxBatchSize} are cut to that`,
      schema: { type: 'integer', minimum: 1, default: batchSize },
    }),
    byPosition
      ? parameter('query', 'start', {
        description: 'The position at which the page starts', schema: { ...count, default: 0 },
      })
      : parameter('query', 'cursor', { description: 'What the `next` of the page before says' }),
    headerParameters.ifNoneMatch,
    ...byPosition ? [headerParameters.range] : [],
  ]
  const failures = errorResponses('invalid_query', 'not_acceptable', 'precondition_failed')
  const partFields = { ...headers, ...responseHeaders('Content-Range') }
  return readOperations({
    summary: 'Read a page', parameters,
    responses: {
      200: { ...response('The page', shown), content: contentOf(page, record) },
      ...byPosition && {
        206: {
          ...response('The records that Range asked for', { headers: partFields }),
          content: contentOf(page, record),
        },
      },
      304: notModified,
      ...failures, ...byPosition && errorResponses('range_not_satisfiable'),
    },
  })
}

function contentOf(page: Fragment, record: Fragment): Fragment {
  const description = `Each line: ${JSON.stringify(record)}`
  const lines = { schema: { type: 'string', description } }
  return {
    'application/json': { schema: page },
    // The names that clients use most: each repeats the schema of a record.
    ...Object.fromEntries(NDJSON_TYPES.slice(0, 3).map((type) => [type, lines])),
  }
}
