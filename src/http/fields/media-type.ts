import { FieldReader } from './reader.js'
import { Memo } from '../../runtime/memo.js'

/** A media type (RFC 9110 section 8.3.1). Shared between requests: do not change it. */
export interface MediaType {
  /** Type and subtype, lower-case, such as `application/json`. */
  readonly type: string
  /** Parameters by lower-case name, with unquoted values as sent. The first one of a name wins. */
  readonly params: ReadonlyMap<string, string>
}

const SLASH = 0x2f
const memo = new Memo((text: string) => ({ parsed: parse(text) }))

/**
 * Reads a media type such as a Content-Type. Returns `undefined` if it is malformed or a list.
 * Takes linear time.
 */
export function parseMediaType(text: string): MediaType | undefined {
  return memo.get(text).parsed
}

function parse(text: string): MediaType | undefined {
  const reader = new FieldReader(text)
  reader.space()
  const type = readType(reader)
  const params = type === undefined ? undefined : reader.parameters()
  return type !== undefined && params !== undefined && reader.done ? { type, params } : undefined
}

/** Reads type and subtype at the position of the reader, in lower case. */
export function readType(reader: FieldReader): string | undefined {
  const start = reader.at
  if (reader.token() === '' || !reader.eat(SLASH) || reader.token() === '') return undefined
  return reader.text.slice(start, reader.at).toLowerCase()
}
