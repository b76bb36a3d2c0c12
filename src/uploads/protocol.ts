import { checkWhole } from '../http/body/body.js'
import { readContentLength } from '../http/headers/digests.js'
import { httpError } from '../http/errors.js'
import type { HttpRequest, RequestHeaders, ResponseHeaders } from '../http/exchange.js'

/** Media type of the body of a PATCH (draft section 6). */
export const PARTIAL_UPLOAD = 'application/partial-upload'

/** An Item of RFC 9651 without its parameters, which have no meaning here. */
const INTEGER = /^[ \t]*([0-9]{1,15})[ \t]*(?:;.*)?$/
const BOOLEAN = /^[ \t]*\?([01])[ \t]*(?:;.*)?$/
/**
 * Interop versions of the draft that this server speaks. 5 and 6 are those of tus-js-client 4
 * (drafts 03 and 05), 7 to 9 those of the drafts up to 12.
 */
const SPOKEN = new Set(['5', '6', '7', '8', '9'])
const UPLOAD_RESUMPTION_SUPPORTED = 104
const PROBLEMS = 'https://iana.org/assignments/http-problem-types'

export interface UploadLimits {
  readonly maxBodyBytes: number
  readonly maxAppendBytes: number
  readonly minAppendBytes: number
  readonly maxAgeMs: number
}

/**
 * Versions of tus that this server speaks instead of tus 1.0, by the names that tus-js-client has
 * for these drafts.
 */
const TUS_VERSIONS = 'ietf-draft-05, ietf-draft-03'

/**
 * Rejects requests of tus 1.0 with the response that tus requires, and bodies that other protocols
 * send as parts.
 * @throws {HttpError} 412 `precondition_failed`, 400 `invalid_header`
 */
export function rejectForeign({ headers }: HttpRequest<unknown>): void {
  if (headers['tus-resumable'] !== undefined) {
    throw httpError('precondition_failed', {
      message: 'tus 1.0 is not supported here. Upload by the IETF draft of resumable uploads.',
      headers: { 'tus-version': TUS_VERSIONS, 'cache-control': 'no-store' },
    })
  }
  checkWhole(headers)
  // Interop versions 3 and 4. What their clients call incomplete would look like the whole.
  if (headers['upload-incomplete'] !== undefined && readComplete(headers) === undefined) {
    throw httpError('invalid_header', {
      message: 'Upload-Incomplete belongs to an older draft of resumable uploads; send Upload-Complete.',
    })
  }
}

export function readInteger(
  headers: RequestHeaders, name: 'upload-offset' | 'upload-length',
): number | undefined {
  const value = headers[name]
  if (value === undefined) return undefined
  const [, digits] = (typeof value === 'string' && INTEGER.exec(value)) || []
  if (digits !== undefined) return Number(digits)
  throw httpError('invalid_header', {
    message: `${name} must be one whole number from 0, of at most 15 digits.`,
  })
}

/** Reads `Upload-Complete`. Any other value counts as absent. */
export function readComplete(headers: RequestHeaders): boolean | undefined {
  const value = headers['upload-complete']
  const [, digit] = (typeof value === 'string' && BOOLEAN.exec(value)) || []
  return digit === undefined ? undefined : digit === '1'
}

/** Returns the headers of a response that is about the upload, not about the finished content. */
export function uploadHeaders(offset: number, complete = false): Record<string, string> {
  return {
    'upload-offset': String(offset),
    'upload-complete': complete ? '?1' : '?0',
    'cache-control': 'no-store',
  }
}

/** Returns the length that a request announces, for a body that starts at `offset`. */
export function announcedLength(
  headers: RequestHeaders, complete: boolean, offset: number, known: number | null,
): number | undefined {
  const size = complete ? readContentLength(headers) : undefined
  const end = size === undefined ? undefined : offset + size
  const lengths = [known ?? undefined, readInteger(headers, 'upload-length'), end]
    .filter((length) => length !== undefined)
  const [first, ...others] = lengths
  if (others.some((length) => length !== first)) throw inconsistentLength(offset)
  return first
}

export function inconsistentLength(offset: number): Error {
  return httpError('upload_length_inconsistent', {
    members: { type: `${PROBLEMS}#inconsistent-upload-length` },
    headers: uploadHeaders(offset),
  })
}

export function mismatchingOffset(expected: number, provided: number): Error {
  return httpError('upload_offset_mismatch', {
    members: {
      'type': `${PROBLEMS}#mismatching-upload-offset`,
      'expected-offset': expected,
      'provided-offset': provided,
    },
    headers: uploadHeaders(expected),
  })
}

export function tooLarge(limits: UploadLimits, message: string): Error {
  return httpError('body_too_large', {
    message, headers: { 'upload-limit': limitHeader(limits), 'cache-control': 'no-store' },
  })
}

export function superseded(offset: number): Error {
  return httpError('upload_superseded', { headers: uploadHeaders(offset) })
}

/** Returns the value of `Upload-Limit` (draft section 4.1.4). */
export function limitHeader(limits: UploadLimits, ageMs = limits.maxAgeMs): string {
  const { maxBodyBytes, maxAppendBytes, minAppendBytes } = limits
  const limitsInOrder = [
    isFinite(maxBodyBytes) && `max-size=${Math.floor(maxBodyBytes)}`,
    isFinite(maxAppendBytes) && `max-append-size=${Math.floor(maxAppendBytes)}`,
    minAppendBytes > 0 && `min-append-size=${Math.ceil(minAppendBytes)}`,
    `max-age=${Math.floor(ageMs / 1000)}`,
  ]
  return limitsInOrder.filter((each) => each !== false).join(', ')
}

export function interopVersion(headers: RequestHeaders): number | undefined {
  const version = headers['upload-draft-interop-version']
  return typeof version === 'string' && SPOKEN.has(version.trim()) ? Number(version) : undefined
}

/**
 * Returns whether a client gets the path of its upload before the final response. A server must not
 * send a 104 to a client that names no interop version.
 */
export function canAnnounce(request: HttpRequest<unknown>): boolean {
  return request.inform !== undefined && interopVersion(request.headers) !== undefined
}

export function announce(request: HttpRequest<unknown>, headers: ResponseHeaders): void {
  const version = interopVersion(request.headers)
  if (version === undefined) return
  request.inform?.(UPLOAD_RESUMPTION_SUPPORTED, {
    'upload-draft-interop-version': String(version), ...headers,
  })
}
