import type { ErrorCode } from '../http/errors.js'
import type { Operation } from '../http/exchange.js'
import { errorResponses, fields, requestFields } from '../openapi/responses.js'
import { header, operation, parameter, response, type Fragment } from '../openapi/operation.js'

const read = [
  requestFields.range, requestFields.wantReprDigest, requestFields.ifMatch, requestFields.ifNoneMatch,
  parameter('header', 'If-Range', { description: 'Give the part only of the version that has this entity tag or date (RFC 9110 section 13.1.5)' }),
  parameter('header', 'If-Modified-Since', { description: 'Answer 304 if there was no change since (RFC 9110 section 13.1.3)' }),
  parameter('header', 'If-Unmodified-Since', { description: 'Answer 412 if there was a change since (RFC 9110 section 13.1.4)' }),
]
const sent = {
  ...fields('ETag', 'Last-Modified', 'Accept-Ranges', 'Cache-Control', 'Vary', 'Repr-Digest'),
  'Content-Disposition': header('Whether to show or to save it, and under which name (RFC 6266)'),
}

/** Parts of the operation that differ between handlers. */
interface ContentOperationOptions {
  /** Code of the 404. Default: `not_found`. */
  readonly notFound?: ErrorCode
  /** Parameters of the path. Default: none. */
  readonly parameters?: readonly Fragment[]
  /** Additional header fields of the answer. Default: none. */
  readonly headers?: Readonly<Record<string, Fragment>>
}

/** The OpenAPI operation of a content handler. `type` if all its content has one media type. */
export function contentOperations(
  type = '*/*', { notFound = 'not_found', parameters = [], ...own }: ContentOperationOptions = {},
): readonly Operation[] {
  const headers = { ...sent, ...own.headers }
  const whole = response('All of it', { schema: {}, mediaTypes: [type], headers })
  return [
    operation('GET', {
      summary: 'Download, all or parts',
      parameters: [...parameters, ...read],
      responses: {
        200: whole,
        206: response('The parts asked for', {
          schema: {}, mediaTypes: [...new Set([type, 'multipart/byteranges'])], headers: { ...headers, ...fields('Content-Range') },
        }),
        304: response(
          'Not changed', { headers: fields('ETag', 'Last-Modified', 'Cache-Control', 'Vary') },
        ),
        ...errorResponses(notFound, 'not_acceptable', 'precondition_failed', 'range_not_satisfiable'),
      },
    }),
    operation('HEAD', {
      summary: 'The header fields of GET',
      parameters: [...parameters, ...read],
      responses: {
        200: response('As GET would answer', { headers }),
        ...errorResponses(notFound, 'not_acceptable', 'precondition_failed'),
      },
    }),
  ]
}
