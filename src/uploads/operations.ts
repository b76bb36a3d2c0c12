import type { Handler, Operation } from '../http/exchange.js'
import { errorResponses, responseHeaders } from '../openapi/responses.js'
import {
  addParameters, addResponseHeaders, addResponses, body, type Fragment, header, operation,
  parameter, response,
} from '../openapi/operation.js'
import { PARTIAL_UPLOAD } from './protocol.js'

const integer: Fragment = { type: 'integer', minimum: 0 }

const OFFSET = {
  'Upload-Offset': header('Number of bytes that are stored', integer),
  'Upload-Complete': header('`?1` in the response to the complete upload, otherwise `?0`'),
}
const LIMIT = {
  'Upload-Limit': header('Limits: `max-size`, `max-append-size`, `min-append-size`, `max-age`'),
}
const ACCEPT_PATCH = {
  'Accept-Patch': header('`application/partial-upload`, the media type of a PATCH (RFC 5789)'),
}
const LENGTH = { 'Upload-Length': header('Size of the complete upload in bytes, if it is known', integer) }

const digest = parameter('header', 'Content-Digest', {
  description: 'Digest of this body (RFC 9530 section 2)',
})
const complete = (required: boolean): Fragment => parameter('header', 'Upload-Complete', {
  required,
  description: '`?1` if the body ends the upload, `?0` if more follows',
})
const length = parameter('header', 'Upload-Length', {
  schema: integer, description: 'Size of the complete upload in bytes',
})
const reprDigest = parameter('header', 'Repr-Digest', {
  description: 'Digest of the complete upload (RFC 9530 section 3)',
})

const OPTIONS = operation('OPTIONS', {
  summary: 'Show the limits of uploads',
  responses: {
    200: response('The limits', { headers: { ...LIMIT, ...ACCEPT_PATCH, ...responseHeaders('Allow') } }),
  },
})

/** Methods that may create an upload to a handler without a description. */
export const CREATING = ['PATCH', 'POST', 'PUT']

/** The response of a handler without a description. Its errors are those of `default`. */
const success = (): Record<string, Fragment> => (
  { '2XX': response('The response of the handler, if the upload is complete') }
)

export function createOperations(handler: Pick<Handler, 'operations'>): readonly Operation[] {
  const own = handler.operations ?? CREATING.map((method) => operation(method, {
    summary: 'Upload content',
    requestBody: body(
      { type: 'string', contentMediaType: 'application/octet-stream' },
      { mediaTypes: ['*/*'], required: false },
    ),
    responses: success(),
  }))
  return [...own.map(resumable), ...own.some(({ method }) => method === 'OPTIONS') ? [] : [OPTIONS]]
}

function resumable(described: Operation): Operation {
  const created = response('The upload was created; send the rest to `Location`', {
    headers: { ...OFFSET, ...LIMIT, ...responseHeaders('Location') },
  })
  const withFields = addParameters(described, [complete(false), length, digest, reprDigest])
  const withResponses = addResponses(withFields, {
    201: created,
    ...errorResponses(
      'invalid_header', 'incomplete_body', 'digest_mismatch', 'upload_length_inconsistent',
      'upload_append_too_small', 'unauthorized', 'precondition_failed', 'upload_superseded', 'body_too_large', 'too_many_uploads',
      'too_many_bytes', 'store_unavailable', 'store_full',
    ),
  })
  const headers = { ...OFFSET, ...LIMIT, ...responseHeaders('Location', 'Idempotent-Replayed') }
  return addResponseHeaders(withResponses, headers)
}

/** Returns the operations of an upload. */
export function resourceOperations(
  path: string, handler: Pick<Handler, 'operations'>,
): readonly Operation[] {
  const id = parameter('path', 'id', { description: 'Id of the upload' })
  const found = response('The upload exists', { headers: { ...OFFSET, ...LENGTH, ...LIMIT } })
  const failures = errorResponses(
    'unauthorized', 'upload_not_found', 'precondition_failed', 'store_unavailable',
  )
  const appended = operation('PATCH', {
    summary: 'Append to an upload',
    parameters: [
      id, complete(true), digest, length, reprDigest,
      parameter('header', 'Upload-Offset', {
        required: true, schema: integer, description: 'Number of bytes that were sent before',
      }),
    ],
    requestBody: body(
      { type: 'string', contentMediaType: 'application/octet-stream' },
      { mediaTypes: [PARTIAL_UPLOAD], required: false },
    ),
    responses: {
      204: response('The bytes are stored', { headers: OFFSET }),
      ...handler.operations === undefined && success(),
      ...errorResponses(
        'invalid_header', 'incomplete_body', 'digest_mismatch', 'upload_length_inconsistent',
        'upload_append_too_small', 'unauthorized', 'upload_not_found', 'upload_offset_mismatch',
        'upload_superseded', 'idempotent_request_running', 'body_too_large', 'too_many_bytes',
        'unsupported_media_type', 'idempotency_not_supported', 'precondition_failed',
        'store_unavailable', 'store_full',
      ),
    },
  })
  const append = addResponseHeaders(
    (handler.operations ?? []).reduce(withResponsesOf, appended),
    { ...OFFSET, ...LIMIT, ...ACCEPT_PATCH, ...responseHeaders('Idempotent-Replayed') },
  )
  const [head, get] = ['HEAD', 'GET'].map((method) => operation(method, {
    summary: 'Show the offset of an upload',
    parameters: [id],
    responses: { 204: found, ...failures },
  })) as [Operation, Operation]
  const gone = response('The upload was deleted')
  const drop = operation('DELETE', {
    summary: 'Delete an upload', parameters: [id],
    responses: { 204: gone, ...failures, ...errorResponses('idempotency_not_supported') },
  })
  return [head, get, append, drop, OPTIONS].map((each) => ({ ...each, path }))
}

/** Adds the responses of an operation of the handler, because the last PATCH gets one of them. */
function withResponsesOf(operation: Operation, { openapi }: Operation): Operation {
  return addResponses(operation, openapi['responses'] as Readonly<Record<string, Fragment>>)
}
