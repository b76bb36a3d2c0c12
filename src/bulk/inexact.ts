import type { ErrorDetail } from '../http/errors.js'
import { childPointer } from '../schema/pointer.js'

const HALF_CHARACTER = /[\ud800-\udfff]/u
/** Details of one item. */
const MAX_NAMED = 5

/**
 * What of an item is no longer as it was sent, or would not be once written: integers past 2^53 -
 * 1, which may have been rounded, numbers too large for any (1e309), and texts with half of a
 * surrogate pair. Names the first five. Does not recurse.
 */
export function inexact(item: unknown): ErrorDetail[] {
  const details: ErrorDetail[] = []
  const open: [pointer: string, value: unknown][] = [['', item]]
  for (let next = open.pop(); next !== undefined && details.length < MAX_NAMED; next = open.pop()) {
    const [pointer, value] = next
    if (typeof value === 'number') {
      if (!Number.isFinite(value)) details.push({ pointer, message: 'is too large for a number' })
      else if (Number.isInteger(value) && !Number.isSafeInteger(value)) details.push({ pointer, message: 'is an integer beyond 2^53 - 1; send it as text' })
    } else if (typeof value === 'string') {
      if (HALF_CHARACTER.test(value)) details.push({ pointer, message: 'has half of a surrogate pair' })
    } else if (typeof value === 'object' && value !== null) {
      for (const [key, child] of Object.entries(value).reverse()) {
        if (HALF_CHARACTER.test(key)) details.push({ pointer, message: 'has a name with half of a surrogate pair' })
        else open.push([childPointer(pointer, key), child])
      }
    }
  }
  return details
}
