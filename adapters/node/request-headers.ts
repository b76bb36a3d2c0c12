import type { IncomingMessage } from 'node:http'
import type { RequestHeaders } from '../../src/http/exchange.js'

/**
 * Headers that have one value and that a decision depends on. If one of them is repeated, Node
 * keeps the first value silently. Other servers and proxies may have read the last one.
 */
const SINGLE = [
  'host', 'authorization', 'proxy-authorization', 'content-type', 'if-modified-since',
  'if-unmodified-since',
]
const LENGTHS = SINGLE.reduce((bits, { length }) => bits | (1 << length), 0)

/**
 * Returns the headers of a request as Node gives them, except that a repeated header of `SINGLE` is
 * a list of all its values. Handlers do not accept a list there.
 */
export function headersOf({ headers, rawHeaders }: IncomingMessage): RequestHeaders {
  let seen = 0
  let repeated = 0
  for (let at = 0; at < rawHeaders.length; at += 2) {
    const name = rawHeaders[at] as string
    if (((LENGTHS >> name.length) & 1) === 0) continue
    const index = SINGLE.indexOf(name.toLowerCase())
    if (index < 0) continue
    repeated |= seen & (1 << index)
    seen |= 1 << index
  }
  return repeated === 0 ? headers : withLists(headers, rawHeaders, repeated)
}

function withLists(
  headers: RequestHeaders, rawHeaders: readonly string[], repeated: number,
): RequestHeaders {
  const lists = Object.create(null) as Record<string, string[] | undefined>
  SINGLE.forEach((name, at) => {
    if ((repeated & (1 << at)) !== 0) lists[name] = []
  })
  for (let at = 0; at < rawHeaders.length; at += 2) {
    lists[(rawHeaders[at] as string).toLowerCase()]?.push(rawHeaders[at + 1] as string)
  }
  return { ...headers, ...lists }
}
