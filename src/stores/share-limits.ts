/** Limits of what one owner leaves behind in a store. */
export interface ShareLimits {
  readonly maxEntries: number
  readonly maxBytes: number
}

/**
 * Returns the share of one owner of a store on a server: 100,000 entries and 64 MiB by default.
 *
 * @throws {TypeError} An option is not a whole number from 1.
 */
export function shareLimits(
  where: string,
  { maxEntriesPerOwner = 100_000, maxBytesPerOwner = 64 * 2 ** 20 }: {
    readonly maxEntriesPerOwner?: number, readonly maxBytesPerOwner?: number,
  },
): ShareLimits {
  for (const [name, value] of Object.entries({ maxEntriesPerOwner, maxBytesPerOwner })) {
    if (Number.isSafeInteger(value) && value >= 1) continue
    throw new TypeError(`${where}: ${name} must be a whole number from 1, not ${String(value)}`)
  }
  return { maxEntries: maxEntriesPerOwner, maxBytes: maxBytesPerOwner }
}
