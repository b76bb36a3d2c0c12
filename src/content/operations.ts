import type { Operation } from '../http/exchange.js'
import { errorResponses } from '../openapi/errors.js'
import { fields, requestFields } from '../openapi/fields.js'
import { header, operation, parameter, response } from '../openapi/operation.js'

const read = [
  requestFields.range, requestFields.wantReprDigest, requestFields.ifMatch, requestFields.ifNoneMatch,
  parameter('header', 'If-Range', { description: 'Give the part only of the version that has this entity tag or date (RFC 9110 section 13.1.5)' }),
  parameter('header', 'If-Modified-Since', { description: 'Answer 304 if there was no change since (RFC 9110 section 13.1.3)' }),
  parameter('header', 'If-Unmodified-Since', { description: 'Answer 412 if there was a change since (RFC 9110 section 13.1.4)' }),
]
const headers = {
  ...fields('ETag', 'Last-Modified', 'Accept-Ranges', 'Cache-Control', 'Vary', 'Repr-Digest'),
  'Content-Disposition': header('Whether to show or to save it, and under which name (RFC 6266)'),
}

/** The OpenAPI operation of a content handler. `type` if all its content has one media type. */
export function contentOperations(type = '*/*'): readonly Operation[] {
  const whole = response('All of it', { schema: {}, mediaTypes: [type], headers })
  return [
    operation('GET', {
      summary: 'Download, all or parts',
      parameters: read,
      responses: {
        200: whole,
        206: response('The parts asked for', {
          schema: {}, mediaTypes: [...new Set([type, 'multipart/byteranges'])], headers: { ...headers, ...fields('Content-Range') },
        }),
        304: response(
          'Not changed', { headers: fields('ETag', 'Last-Modified', 'Cache-Control', 'Vary') },
        ),
        ...errorResponses('not_found', 'not_acceptable', 'precondition_failed', 'range_not_satisfiable'),
      },
    }),
    operation('HEAD', {
      summary: 'The header fields of GET',
      parameters: read,
      responses: {
        200: response('As GET would answer', { headers }),
        ...errorResponses('not_found', 'not_acceptable', 'precondition_failed'),
      },
    }),
  ]
}
