import { ERROR_CODES, type ErrorCode } from '../http/errors.js'
import { fields } from './fields.js'
import { header, type Fragment } from './operation.js'

const text: Fragment = { type: 'string' }

const members: Fragment = {
  error: { type: 'string', description: 'One sentence' },
  code: { type: 'string', description: 'Stable: branch on it' },
  details: {
    type: 'array',
    items: {
      type: 'object',
      required: ['pointer', 'message'],
      properties: {
        pointer: { type: 'string', description: 'JSON pointer (RFC 6901) to what is wrong' },
        message: text,
      },
    },
  },
}

/** The one error body: `{ error, code, details? }`. */
export const errorSchema: Fragment = {
  type: 'object', required: ['error', 'code'], properties: members,
}

/** The same as a problem (RFC 9457), for clients that name `application/problem+json`. */
export const problemSchema: Fragment = {
  type: 'object',
  required: ['error', 'code', 'status', 'title', 'detail'],
  properties: { ...members, status: { type: 'integer' }, title: text, detail: text },
}

/** The content of every error response: the error body, and the same as a problem. */
export const errorContent: Fragment = {
  'application/json': { schema: errorSchema },
  'application/problem+json': { schema: problemSchema },
}

/** Header fields of every error: it is not stored, and its shape depends on Accept. */
const ALL = fields('Cache-Control', 'Vary')

const retryAfter = { 'Retry-After': header('Seconds, or an HTTP date (RFC 9110 section 10.2.3)') }

/** The header fields that belong to one error status. */
const BY_STATUS: Readonly<Record<number, Readonly<Record<string, Fragment>>>> = {
  401: { 'WWW-Authenticate': header('The schemes that are accepted (RFC 9110 section 11.6.1)') },
  405: { 'Allow': header('The methods that are (RFC 9110 section 10.2.1)') },
  412: fields('ETag'),
  415: {
    'Accept': header('The media types that are accepted (RFC 9110 section 12.5.1)'),
    'Accept-Encoding': header('The content codings that are (RFC 9110 section 12.5.3)'),
  },
  416: fields('Content-Range', 'Accept-Ranges', 'ETag'),
  429: retryAfter,
  503: retryAfter,
}

/**
 * Builds the response objects, by status, for the error codes of an operation. Codes of one status
 * share a response that names them.
 *
 * @example
 * errorResponses('invalid_input', 'malformed_json') // { 400: … }
 */
export function errorResponses(...codes: readonly ErrorCode[]): Record<string, Fragment> {
  const sentences = new Map<number, string[]>()
  for (const code of new Set(codes)) {
    const [status, sentence] = ERROR_CODES[code]
    sentences.set(status, [...(sentences.get(status) ?? []), `\`${code}\`: ${sentence}`])
  }
  // An endpoint that reads keys acknowledges them in its failures too.
  const ofKey = codes.includes('invalid_idempotency_key') ? fields('Idempotency-Key') : {}
  return Object.fromEntries([...sentences].map(([status, lines]) => {
    const headers = { ...ALL, ...BY_STATUS[status], ...ofKey }
    return [String(status), { description: lines.join(' '), headers, content: errorContent }]
  }))
}
