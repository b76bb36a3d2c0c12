import { checkWhole } from '../http/body/body.js'
import { httpError } from '../http/errors.js'
import type { RequestHeaders } from '../http/exchange.js'
import { parseMediaType } from '../http/headers/accept.js'
import { NDJSON_TYPE } from '../http/headers/ndjson-types.js'

const UTF8 = new Set([undefined, 'utf-8', 'utf8'])

/** Checks that Content-Type is one of `types`, in UTF-8. */
export function checkMediaType(headers: RequestHeaders, types: readonly string[]): void {
  checkWhole(headers)
  const header = headers['content-type']
  const mediaType = typeof header === 'string' ? parseMediaType(header) : undefined
  const charset = mediaType?.params.get('charset')?.toLowerCase()
  if (mediaType && types.includes(mediaType.type) && UTF8.has(charset)) return
  throw httpError('unsupported_media_type', {
    message: types.includes(NDJSON_TYPE)
      ? `Send ${NDJSON_TYPE}: one JSON object a line, in UTF-8.`
      : `Send ${types.join(', ')}, in UTF-8.`,
    headers: { accept: types.join(', ') },
  })
}

/** Returns true for an array of media types without parameters. */
export function areMediaTypes(given: unknown): boolean {
  return Array.isArray(given) && given.every((each) => (
    typeof each === 'string' && parseMediaType(each)?.type === each.toLowerCase()
  ))
}

/** Returns media types in lower case, each once. */
export function distinctTypes(...types: readonly (readonly string[])[]): readonly string[] {
  return [...new Set(types.flat().map((type) => type.toLowerCase()))]
}
