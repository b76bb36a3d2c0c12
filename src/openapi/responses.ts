import { ERROR_CODES, type ErrorCode } from '../http/errors.js'
import type { Operation } from '../http/exchange.js'
import { errorContent, joinCodes } from './errors.js'
import { addResponses, header, parameter, type Fragment } from './operation.js'

export const headerParameters = {
  prefer: parameter('header', 'Prefer', {
    description: 'Preferences (RFC 7240), such as `respond-async` or `wait=10`',
  }),
  idempotencyKey: parameter('header', 'Idempotency-Key', {
    description: 'Makes retries of this request take effect once',
  }),
  ifNoneMatch: parameter('header', 'If-None-Match', {
    description: 'Entity tags that the client has (RFC 9110 section 13.1.2)',
  }),
  ifMatch: parameter('header', 'If-Match', {
    description: 'Entity tags of which one must be current (RFC 9110 section 13.1.1)',
  }),
  contentDigest: parameter('header', 'Content-Digest', {
    description: 'Digests that the body must have, such as `sha-256=:…:` (RFC 9530 section 2)',
  }),
  wantReprDigest: parameter('header', 'Want-Repr-Digest', {
    description: 'The digests that are wanted, such as `sha-256=10` (RFC 9530 section 4)',
  }),
  range: parameter(
    'header', 'Range', { description: 'The part that is wanted (RFC 9110 section 14.2)' },
  ),
} as const satisfies Record<string, Fragment>

export const knownHeaders = {
  'Location': header('Path of the resource that was made (RFC 9110 section 10.2.2)'),
  'Content-Location': header(
    'Path of the resource that this body represents (RFC 9110 section 8.7)'
  ),
  'Preference-Applied': header('The preferences that were honoured (RFC 7240 section 3)'),
  'Retry-After': header('Seconds until it is worth asking again (RFC 9110 section 10.2.3)', {
    type: 'integer', minimum: 0,
  }),
  'ETag': header('Changes with the representation (RFC 9110 section 8.8.3)'),
  'Last-Modified': header('HTTP date of the last change (RFC 9110 section 8.8.2)'),
  'Vary': header('The request headers that this response depends on (RFC 9110 section 12.5.5)'),
  'Cache-Control': header('How long it may be reused, and by whom (RFC 9111 section 5.2)'),
  'Link': header('Related resources (RFC 8288)'),
  'Allow': header('The methods that are allowed (RFC 9110 section 10.2.1)'),
  'Content-Range': header('Which part this is (RFC 9110 section 14.4)'),
  'Repr-Digest': header('Digests of the whole representation (RFC 9530 section 3)'),
  'Accept-Ranges': header('The range units that are understood (RFC 9110 section 14.3)'),
  'Deprecation': header('When this became, or becomes, deprecated'),
  'Sunset': header('HTTP date when this resource is expected to go (RFC 8594)'),
  'Idempotency-Key': header(
    'The Idempotency-Key of the request, because it is honoured: the request may be sent again'
  ),
  'Idempotent-Replayed': header(
    '`true` if this repeats the response to an earlier request with this Idempotency-Key'
  ),
} as const satisfies Record<string, Fragment>

/**
 * Describes these headers, for one response.
 * @example
 * responseHeaders('Location', 'Retry-After')
 */
export function responseHeaders(
  ...names: readonly (keyof typeof knownHeaders)[]
): Record<string, Fragment> {
  return Object.fromEntries(names.map((name) => [name, knownHeaders[name]]))
}

const retryAfter = { 'Retry-After': header('Seconds, or an HTTP date (RFC 9110 section 10.2.3)') }

const BY_STATUS: Readonly<Record<number, Readonly<Record<string, Fragment>>>> = {
  401: { 'WWW-Authenticate': header('The schemes that are accepted (RFC 9110 section 11.6.1)') },
  405: { 'Allow': header('The methods that are (RFC 9110 section 10.2.1)') },
  412: responseHeaders('ETag'),
  415: {
    'Accept': header('The media types that are accepted (RFC 9110 section 12.5.1)'),
    'Accept-Encoding': header('The content codings that are (RFC 9110 section 12.5.3)'),
  },
  416: responseHeaders('Content-Range', 'Accept-Ranges', 'ETag'),
  429: retryAfter,
  503: retryAfter,
}

/**
 * Builds the response objects for error codes, one for each status. They have the headers that the
 * status is about, such as Retry-After. Other headers of errors are those of `default`.
 * @example
 * errorResponses('invalid_input', 'malformed_json') // { 400: … }
 */
export function errorResponses(...codes: readonly ErrorCode[]): Record<string, Fragment> {
  const sentences = new Map<number, string[]>()
  for (const code of new Set(codes)) {
    const [status, sentence] = ERROR_CODES[code]
    sentences.set(status, [...(sentences.get(status) ?? []), `\`${code}\`: ${sentence}`])
  }
  return Object.fromEntries([...sentences].map(([status, lines]) => {
    const headers = BY_STATUS[status]
    const description = joinCodes(lines)
    return [String(status), { description, ...headers && { headers }, content: errorContent }]
  }))
}

export function addFailures(...codes: readonly ErrorCode[]): (operation: Operation) => Operation {
  const responses = errorResponses(...codes)
  return (operation) => addResponses(operation, responses)
}
