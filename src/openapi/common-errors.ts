import { ERROR_CODES, type ErrorCode } from '../http/errors.js'
import { commonFields } from './common-fields.js'
import { header, type Fragment } from './operation.js'

type Headers = Readonly<Record<number, Readonly<Record<string, Fragment>>>>

const text: Fragment = { type: 'string' }

const members: Fragment = {
  error: { type: 'string', description: 'One sentence' },
  code: { type: 'string', description: 'Stable: branch on it' },
  details: {
    type: 'array',
    items: {
      type: 'object',
      required: ['pointer', 'message'],
      properties: { pointer: { type: 'string', description: 'JSON pointer (RFC 6901) to what is wrong' }, message: text },
    },
  },
}

/** The one error body: `{ error, code, details? }`. */
export const errorSchema: Fragment = { type: 'object', required: ['error', 'code'], properties: members }

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

/** Failures are not stored, and their shape depends on Accept. */
const ALL = commonFields('Cache-Control', 'Vary')
const retryAfter = { 'Retry-After': header('Seconds, or an HTTP date (RFC 9110 section 10.2.3)') }

/** The header fields that belong to a status of the 202 flow. */
export const COMMON_HEADERS: Headers = {
  415: {
    'Accept': header('The media types that are accepted (RFC 9110 section 12.5.1)'),
    'Accept-Encoding': header('The content codings that are (RFC 9110 section 12.5.3)'),
  },
  429: retryAfter,
  503: retryAfter,
}

/** `errorResponses` of the 202 flow, so that its bundle has no more than these. */
export function commonErrorResponses(...codes: readonly ErrorCode[]): Record<string, Fragment> {
  return errorResponsesWith(COMMON_HEADERS, codes)
}

/** `errorResponses`, with the header fields of each status. */
export function errorResponsesWith(own: Headers, codes: readonly ErrorCode[]): Record<string, Fragment> {
  const sentences = new Map<number, string[]>()
  for (const code of new Set(codes)) {
    const [status, sentence] = ERROR_CODES[code]
    sentences.set(status, [...(sentences.get(status) ?? []), `\`${code}\`: ${sentence}`])
  }
  return Object.fromEntries([...sentences].map(([status, lines]) => {
    return [String(status), { description: lines.join(' '), headers: { ...ALL, ...own[status] }, content: errorContent }]
  }))
}
