import { readContentLength } from '../http/body/body.js'
import { httpError } from '../http/errors.js'
import type { RequestHeaders, ResponseHeaders } from '../http/exchange.js'

/** Media type of the body of a PATCH (draft section 6). */
export const PARTIAL_UPLOAD = 'application/partial-upload'

/** An Item of RFC 9651 without its parameters, which have no meaning here. */
const INTEGER = /^[ \t]*([0-9]{1,15})[ \t]*(?:;.*)?$/
const BOOLEAN = /^[ \t]*\?([01])[ \t]*(?:;.*)?$/

type IntegerField = 'upload-offset' | 'upload-length'

/**
 * Reads `Upload-Offset` or `Upload-Length`.
 * @throws {HttpError} 400 `invalid_header`: it is not a whole number from 0, of at most 15 digits
 */
export function readInteger(headers: RequestHeaders, name: IntegerField): number | undefined {
  const field = headers[name]
  if (field === undefined) return undefined
  const [, digits] = (typeof field === 'string' && INTEGER.exec(field)) || []
  if (digits !== undefined) return Number(digits)
  throw httpError('invalid_header', {
    message: `${name} must be one whole number from 0, of at most 15 digits.`,
  })
}

/** Reads `Upload-Complete`. Any other value counts as absent. */
export function readComplete(headers: RequestHeaders): boolean | undefined {
  const field = headers['upload-complete']
  const [, digit] = (typeof field === 'string' && BOOLEAN.exec(field)) || []
  return digit === undefined ? undefined : digit === '1'
}

/** Returns the fields of an answer that is about the upload, not about the finished content. */
export function uploadFields(offset: number, complete = false): ResponseHeaders {
  return {
    'upload-offset': String(offset),
    'upload-complete': complete ? '?1' : '?0',
    'cache-control': 'no-store',
  }
}

/**
 * Returns the length that a request announces, for a body that starts at `offset`.
 *
 * @param known - length that an earlier request announced
 * @throws {HttpError} `upload_length_inconsistent`
 */
export function announcedLength(
  headers: RequestHeaders, complete: boolean, offset: number, known: number | null,
): number | undefined {
  const size = complete ? readContentLength(headers) : undefined
  const lengths = [
    known ?? undefined,
    readInteger(headers, 'upload-length'),
    size === undefined ? undefined : offset + size,
  ].filter((length) => length !== undefined)
  const [first, ...others] = lengths
  if (others.some((length) => length !== first)) throw inconsistentLength(offset)
  return first
}

const PROBLEMS = 'https://iana.org/assignments/http-problem-types'

/** Returns the error for announced lengths that differ (draft section 7.2). */
export function inconsistentLength(offset: number): Error {
  return httpError('upload_length_inconsistent', {
    members: { type: `${PROBLEMS}#inconsistent-upload-length` },
    headers: uploadFields(offset) as Record<string, string>,
  })
}

/** Returns the error for a PATCH at another offset (draft section 7.1). */
export function mismatchingOffset(expected: number, provided: number): Error {
  return httpError('upload_offset_mismatch', {
    members: {
      'type': `${PROBLEMS}#mismatching-upload-offset`,
      'expected-offset': expected,
      'provided-offset': provided,
    },
    headers: uploadFields(expected) as Record<string, string>,
  })
}
