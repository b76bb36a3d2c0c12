import { createHash, type Hash } from 'node:crypto'

/**
 * Number of characters that are hashed in one call, since a call for each token would cost more.
 */
const CHUNK = 65_536

/**
 * Returns the SHA-256 of a JSON value in a canonical form: members in the order of their names'
 * UTF-16 code units, without spaces (RFC 8785). So it does not change when a client sends the same
 * members in another order.
 *
 * A value that is not JSON is read as `JSON.stringify` reads it: calls `toJSON`, omits `undefined`
 * members. Reads nesting of any depth without recursion.
 */
export function fingerprintOf(value: unknown): string {
  const hash = createHash('sha256')
  let text = ''
  const left: Step[] = [{ value }]
  for (let step = left.pop(); step !== undefined; step = left.pop()) {
    text += 'text' in step ? step.text : begin(step.value, left)
    if (text.length > CHUNK) text = flush(hash, text)
  }
  flush(hash, text)
  return hash.digest('base64url')
}

/** A value that is not written yet, or text between values. */
type Step = { readonly value: unknown } | { readonly text: string }

function flush(hash: Hash, text: string): '' {
  hash.update(text)
  return ''
}

/** Returns the text at the start of a value, and pushes its remaining parts to `left`. */
function begin(given: unknown, left: Step[]): string {
  const value = hasToJson(given) ? given.toJSON() : given
  if (typeof value !== 'object' || value === null) return JSON.stringify(value) ?? ''
  if (Array.isArray(value)) {
    left.push({ text: ']' })
    for (let at = value.length - 1; at >= 0; at--) {
      left.push({ value: value[at] })
      if (at > 0) left.push({ text: ',' })
    }
    return '['
  }
  const members = value as Readonly<Record<string, unknown>>
  const names = Object.keys(members).filter((name) => members[name] !== undefined).sort()
  left.push({ text: '}' })
  for (let at = names.length - 1; at >= 0; at--) {
    const name = names[at] as string
    left.push({ value: members[name] }, { text: `${at > 0 ? ',' : ''}${JSON.stringify(name)}:` })
  }
  return '{'
}

function hasToJson(value: unknown): value is { toJSON(): unknown } {
  if (typeof value !== 'object' || value === null) return false
  return typeof (value as { toJSON?: unknown }).toJSON === 'function'
}
