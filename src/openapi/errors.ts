import type { ErrorCode } from '../http/errors.js'
import { COMMON_HEADERS, errorResponsesWith } from './common-errors.js'
import { fields } from './fields.js'
import { header, type Fragment } from './operation.js'

/** The header fields that belong to a status. */
const HEADERS = {
  ...COMMON_HEADERS,
  401: { 'WWW-Authenticate': header('The schemes that are accepted (RFC 9110 section 11.6.1)') },
  405: { 'Allow': header('The methods that are (RFC 9110 section 10.2.1)') },
  412: fields('ETag'),
  416: fields('Content-Range', 'Accept-Ranges', 'ETag'),
}

/**
 * Response objects, by status, for the codes that an operation may fail with. Codes of one status
 * share a response, which names them: `errorResponses('invalid_input', 'malformed_json')` is `{
 * 400: … }`.
 */
export function errorResponses(...codes: readonly ErrorCode[]): Record<string, Fragment> {
  return errorResponsesWith(HEADERS, codes)
}
