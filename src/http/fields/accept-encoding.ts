import { Memo } from '../../runtime/memo.js'
import { FieldReader, fieldText, readWeight } from './reader.js'

const memo = new Memo(parse)

/**
 * Chooses the content coding of a response (RFC 9110 section 12.5.3): the one of `codings` with the
 * highest `q`, then the first of equals. Returns `identity` if the client wants none of them, and
 * `undefined` if it refuses `identity`, too. Without the header, returns `identity`.
 *
 * `identity` is always available. If the header has neither `identity` nor `*`, it comes after
 * every coding that the header wants. Codings are case-insensitive, and `x-gzip` is `gzip`. Skips
 * malformed items. Never throws. Takes linear time.
 */
export function negotiateCoding(
  header: string | readonly string[] | undefined,
  codings: readonly string[],
): string | undefined {
  if (header === undefined) return 'identity'
  const asked = memo.get(fieldText(header))
  const any = asked.get('*')
  let best: string | undefined
  let bestQ = 0
  for (const coding of codings) {
    const name = canonical(coding)
    const q = asked.get(name) ?? any ?? 0
    if (q > bestQ) {
      best = coding
      bestQ = q
    }
  }
  const identity = asked.get('identity') ?? any
  if (identity === undefined) return best ?? 'identity'
  return identity > bestQ ? 'identity' : best
}

function parse(text: string): ReadonlyMap<string, number> {
  const asked = new Map<string, number>()
  const reader = new FieldReader(text)
  while (!reader.done) {
    if (reader.itemEnds()) continue
    const name = canonical(reader.token())
    const params = name === '' ? undefined : reader.parameters()
    const ended = params !== undefined && reader.itemEnds()
    if (!ended) reader.skipItem()
    const q = ended ? readWeight(params) : undefined
    if (q !== undefined && !asked.has(name)) asked.set(name, q)
  }
  return asked
}

function canonical(coding: string): string {
  const name = coding.toLowerCase()
  return name === 'x-gzip' || name === 'x-compress' ? name.slice(2) : name
}
