import { createHash } from 'node:crypto'
import { failed, type FailedOutcome } from './outcome.js'

/** A longer key is kept as its digest. In UTF-16 units. */
const MAX_KEPT_KEY = 64

/**
 * Returns a function that finds records with the key of an earlier record. It keeps each key.
 * @param message - message for a record, given the number of the first one with its key
 */
export function findDuplicates<T>(
  key: (record: T) => string | undefined, message: (first: number) => string,
): (record: T, number: number) => FailedOutcome | undefined {
  const seen = new Map<string, number>()
  return (record, number) => {
    const its = key(record)
    if (its === undefined) return undefined
    const kept = keptKey(String(its))
    const first = seen.get(kept)
    if (first !== undefined) return failed('duplicate_item', message(first))
    seen.set(kept, number)
    return undefined
  }
}

function keptKey(key: string): string {
  return key.length <= MAX_KEPT_KEY ? key : createHash('sha256').update(key).digest('base64')
}
