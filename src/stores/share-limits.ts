import { readOptions, text, whole } from '../runtime/options.js'

/** Limits of what one owner leaves behind in a store. */
export interface ShareLimits {
  readonly maxEntries: number
  readonly maxBytes: number
}

/** The option for a namespace that becomes part of keys. */
export const NAMESPACE = text({ pattern: /^[A-Za-z0-9._-]{1,64}$/, expects: '1 to 64 of A-Z a-z 0-9 . _ -' })
/** The options for the share of one owner of a store on a server. */
export const SHARES = {
  maxEntriesPerOwner: whole({ min: 1, default: 100_000 }),
  maxBytesPerOwner: whole({ min: 1, default: 64 * 2 ** 20 }),
}

/** @throws {TypeError} The namespace is not 1 to 64 of `A-Z a-z 0-9 . _ -`. */
export function checkNamespace(where: string, namespace: string): void {
  readOptions(where, { namespace }, { namespace: NAMESPACE })
}

/**
 * Returns the share of one owner of a store on a server.
 *
 * @throws {TypeError} An option is not a whole number from 1.
 */
export function shareLimits(
  where: string,
  { maxEntriesPerOwner, maxBytesPerOwner }: {
    readonly maxEntriesPerOwner?: number | undefined, readonly maxBytesPerOwner?: number | undefined,
  },
): ShareLimits {
  const read = readOptions(where, { maxEntriesPerOwner, maxBytesPerOwner }, SHARES)
  return { maxEntries: read.maxEntriesPerOwner, maxBytes: read.maxBytesPerOwner }
}
