import { readOptions, whole } from '../runtime/options.js'

/** Limits of what one owner leaves behind in a store. */
export interface ShareLimits {
  readonly maxEntries: number
  readonly maxBytes: number
}

export const SHARES = {
  maxEntriesPerOwner: whole({ min: 1, default: 100_000 }),
  maxBytesPerOwner: whole({ min: 1, default: 64 * 2 ** 20 }),
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
