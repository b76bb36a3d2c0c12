import { whole } from '../runtime/options.js'

/** Limits of the entries of one caller in a store. */
export interface ShareLimits {
  readonly maxEntries: number
  readonly maxBytes: number
}

export const SHARES = {
  maxEntriesPerOwner: whole({ min: 1, default: 100_000 }),
  maxBytesPerOwner: whole({ min: 1, default: 64 * 2 ** 20 }),
}
