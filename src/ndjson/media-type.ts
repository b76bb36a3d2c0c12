import { checkWhole } from '../http/body/body.js'
import { httpError } from '../http/errors.js'
import type { RequestHeaders } from '../http/exchange.js'
import { parseMediaType } from '../http/fields/accept.js'

export const NDJSON_TYPE = 'application/x-ndjson'

/** All media types that are in use for NDJSON. */
const NDJSON_TYPES = new Set([
  NDJSON_TYPE, 'application/ndjson', 'application/jsonl', 'application/x-jsonlines',
  'application/jsonlines',
])
const UTF8 = new Set([undefined, 'utf-8', 'utf8'])

/** Checks that Content-Type is one of the names of NDJSON, or one of `others`, in UTF-8. */
export function checkNdjsonType(headers: RequestHeaders, others?: readonly string[]): void {
  checkWhole(headers)
  const field = headers['content-type']
  const mediaType = typeof field === 'string' ? parseMediaType(field) : undefined
  const charset = mediaType?.params.get('charset')?.toLowerCase()
  const isKnown = mediaType && (others?.includes(mediaType.type) ?? NDJSON_TYPES.has(mediaType.type))
  if (isKnown && UTF8.has(charset)) return
  const accept = others?.join(', ') ?? NDJSON_TYPE
  throw httpError('unsupported_media_type', {
    message: others ? `Send ${accept}, in UTF-8.` : `Send ${NDJSON_TYPE}: one JSON object a line, in UTF-8.`,
    headers: { accept },
  })
}
