import type { ErrorDetail } from '../http/errors.js'
import { childPointer } from '../schema/pointer.js'
import { MAX_DETAILS } from '../schema/validate.js'

const HALF_CHARACTER = /\p{Surrogate}/u
const LARGE = 'must be a number from -9007199254740991 to 9007199254740991, or a string: larger ones can not be told from their neighbours'
const HALF = 'must not hold half of a surrogate pair'

/**
 * What in a parsed value may be other than it was written, or can't be passed on as UTF-8, with pointers: numbers without a
 * fraction past 2^53 - 1, those too large for a number at all (RFC 8259 section 6, RFC 7493 section 2.2), texts and keys with half
 * of a surrogate pair (RFC 8259 section 8.2). At most 20. Elements of a batch that is `plain` have none of that.
 */
export function unfaithful(value: unknown): ErrorDetail[] {
  return isFaithful(value) ? [] : found(value)
}

/** By a list of what is still to be looked at, since a client may nest as deep as it likes. */
function isFaithful(root: unknown): boolean {
  const rest: unknown[] = [root]
  while (rest.length > 0) {
    const value = rest.pop()
    if (fault(value) !== undefined) return false
    if (Array.isArray(value)) for (const child of value as unknown[]) rest.push(child)
    else if (typeof value === 'object' && value !== null) {
      for (const key in value) {
        if (HALF_CHARACTER.test(key)) return false
        rest.push((value as Record<string, unknown>)[key])
      }
    }
  }
  return true
}

function found(root: unknown): ErrorDetail[] {
  const details: ErrorDetail[] = []
  const rest: { readonly value: unknown; readonly pointer: string }[] = [{ value: root, pointer: '' }]
  for (let entry = rest.pop(); entry !== undefined && details.length < MAX_DETAILS; entry = rest.pop()) {
    const { value, pointer } = entry
    const message = fault(value)
    if (message !== undefined) details.push({ pointer, message })
    if (typeof value !== 'object' || value === null) continue
    // The last one is looked at first, so they are put there backwards.
    for (const [key, child] of Object.entries(value).reverse()) {
      if (HALF_CHARACTER.test(key)) details.push({ pointer, message: HALF })
      rest.push({ value: child, pointer: childPointer(pointer, key.replace(/\p{Surrogate}/gu, '\uFFFD')) })
    }
  }
  return details.slice(0, MAX_DETAILS)
}

function fault(value: unknown): string | undefined {
  if (typeof value === 'number') return Number.isSafeInteger(value) || (Number.isFinite(value) && !Number.isInteger(value)) ? undefined : LARGE
  return typeof value === 'string' && HALF_CHARACTER.test(value) ? HALF : undefined
}
