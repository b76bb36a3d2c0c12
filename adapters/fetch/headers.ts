import type { RequestHeaders, ResponseHeaders } from '../../src/http/exchange.js'
import { isFieldValue } from '../../src/http/fields/fields.js'

/** Fetch headers as a plain record; repeated fields are joined already. */
export function recordOf(headers: Headers): RequestHeaders {
  const record = Object.create(null) as Record<string, string>
  for (const [name, value] of headers) record[name] = value
  return record
}

/**
 * Response headers as `new Response` takes them: a list field becomes that many lines. Checks the
 * values itself, since @hono/node-server's `Response` leaves that to a place behind our error
 * boundary.
 */
export function fetchHeaders(
  headers: ResponseHeaders, length: number | undefined, drop: boolean
): Record<string, string> | [string, string][] {
  const single: Record<string, string> = {}
  let lines: [string, string][] | undefined
  for (const [name, value] of Object.entries(headers)) {
    if (drop && name === 'content-length') continue
    for (const line of typeof value === 'string' ? [value] : value) {
      if (!isFieldValue(line)) {
        throw new TypeError(`The response header ${name} has characters that no header may have`)
      }
    }
    if (Array.isArray(value)) {
      (lines ??= []).push(...value.map((line): [string, string] => [name, line]))
    }
    else single[name] = value
  }
  if (length !== undefined) single['content-length'] = String(length)
  return lines === undefined ? single : [...Object.entries(single), ...lines]
}
