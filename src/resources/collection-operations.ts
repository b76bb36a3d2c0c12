import { describe, type Handler, type HttpRequest, type HttpResponse } from '../http/exchange.js'
import type { MaybePromise } from '../runtime/maybe-promise.js'
import {
  body, header, operation, response, type BodySchema, type Fragment,
} from '../openapi/operation.js'
import { errorResponses } from '../openapi/errors.js'
import { fields, requestFields, type responseFields } from '../openapi/fields.js'
import type { Schema } from '../schema/schema.js'
import { PATCH_TYPES } from './item-body.js'

interface Described {
  readonly item?: BodySchema
  readonly schema: Schema
  readonly changeSchema?: Schema
  readonly requirePreconditions?: boolean
}

type Method = 'GET' | 'POST' | 'PUT' | 'PATCH' | 'DELETE'
type Answer = (request: HttpRequest) => MaybePromise<HttpResponse>

/** Gives the handlers of records their descriptions. */
export function collectionOperations(
  { item = { type: 'object' }, schema, changeSchema, requirePreconditions = false }: Described,
) {
  const { ifMatch, ifNoneMatch, prefer, contentDigest } = requestFields
  const shown = (status: string, ...names: readonly (keyof typeof responseFields)[]): Fragment =>
    response(status, { schema: item, headers: fields(...names) })
  const conditions = {
    ...errorResponses('precondition_failed'),
    ...requirePreconditions && errorResponses('precondition_required'),
  }
  const refused = errorResponses(
    'invalid_input', 'malformed_json', 'digest_mismatch', 'invalid_header', 'missing_body',
    'nested_too_deep',
    'unsafe_key', 'body_too_large', 'conflict', 'unsupported_media_type',
    'idempotency_not_supported', 'too_many_requests', 'overloaded',
  )
  // RFC 5789 section 2.2.
  const { 415: unsupported } = errorResponses('unsupported_media_type')
  const acceptPatch = header('The media types of a change that are accepted')
  const patchFields = { ...unsupported?.['headers'] as Fragment, 'Accept-Patch': acceptPatch }
  const otherType = { 415: { ...unsupported, headers: patchFields } }
  const minimal = response('Done, and no body was wanted', {
    headers: fields('ETag', 'Preference-Applied', 'Vary'),
  })
  const preferred = ['Content-Location', 'Preference-Applied', 'Vary'] as const
  const made = shown('Created', 'ETag', 'Location', ...preferred)
  const changed = shown('As it is now', 'ETag', ...preferred)

  const about: Record<Method, Omit<Parameters<typeof operation>[1], 'operationId'>> = {
    GET: {
      summary: 'Read a record', parameters: [ifMatch, ifNoneMatch], responses: {
        200: shown('The record', 'ETag', 'Vary', 'Cache-Control'),
        304: response('Not changed', { headers: fields('ETag', 'Cache-Control', 'Vary') }),
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
      summary: 'Change some fields of a record', parameters: [ifMatch, ifNoneMatch, prefer, contentDigest],
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
  const head = operation('HEAD', {
    ...about.GET, summary: 'The header fields of GET', responses: {
      ...about.GET.responses,
      200: response('As GET would answer', { headers: fields('ETag', 'Vary', 'Cache-Control') }),
    },
  })
  return (method: Method, answer: Answer): Handler => describe(answer, [
    operation(method, about[method]), ...method === 'GET' ? [head] : [],
  ])
}
