import { httpError } from '../http/errors.js'
import type { RequestHeaders } from '../http/exchange.js'
import { parseMediaType } from '../http/fields/media-type.js'

/** The media type of NDJSON (SPEC 4.9). */
export const NDJSON_TYPE = 'application/x-ndjson'

/** Other names that are in use for the same thing. */
const KNOWN = new Set([NDJSON_TYPE, 'application/ndjson', 'application/jsonl', 'application/x-jsonlines', 'application/jsonlines'])

/**
 * Lets NDJSON in UTF-8 pass, under any of its names. Throws `unsupported_media_type` (415) for
 * others, and without Content-Type.
 */
export function checkNdjsonType(headers: RequestHeaders): void {
  const field = headers['content-type']
  const mediaType = typeof field === 'string' ? parseMediaType(field) : undefined
  const charset = mediaType?.params.get('charset')?.toLowerCase()
  if (mediaType && KNOWN.has(mediaType.type) && (charset === undefined || charset === 'utf-8' || charset === 'utf8')) return
  throw httpError('unsupported_media_type', { message: `Send ${NDJSON_TYPE}: one JSON object a line, in UTF-8.`, headers: { accept: NDJSON_TYPE } })
}
