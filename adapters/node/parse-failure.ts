import { httpError, type HttpError } from '../../src/http/errors.js'

/** Node's error for a request that it could not parse, or that took too long. */
export interface ParseFailure extends Error {
  readonly code?: string
  readonly rawPacket?: Buffer
  readonly bytesParsed?: number
}

/** The answer for what Node's parser refused. */
export function parseError(failure: ParseFailure): HttpError {
  switch (failure.code) {
    case 'HPE_INVALID_METHOD':
      return httpError(namesMethod(failure) ? 'not_implemented' : 'bad_request')
    case 'HPE_HEADER_OVERFLOW':
      return httpError('header_fields_too_large')
    case 'HPE_CHUNK_EXTENSIONS_OVERFLOW':
      return httpError('body_too_large')
    case 'ERR_HTTP_REQUEST_TIMEOUT':
      return httpError('request_timeout')
    default:
      return httpError('bad_request')
  }
}

/**
 * Returns whether the parser stopped at a well-formed method that it does not know (RFC 9110
 * section 9.1), and not at garbage such as a TLS hello. The packet may hold earlier requests, so
 * the line where it stopped counts.
 */
function namesMethod({ rawPacket, bytesParsed }: ParseFailure): boolean {
  if (rawPacket === undefined) return false
  const start = rawPacket.lastIndexOf(0x0a, Math.max(0, (bytesParsed ?? 0) - 1)) + 1
  return /^[\w!#$%&'*+.^`|~-]+(?: |$)/.test(rawPacket.toString('latin1', start, start + 256))
}
