import type { Blobs } from './blobs.js'

/** Limits of what one owner leaves behind in a store. */
export interface ShareLimits {
  readonly maxEntries: number
  readonly maxBytes: number
}

/**
 * Returns the bytes that one owner may have in the blobs before they are processed. Default: a
 * quarter of `maxBytes` of the blobs; without it 64 MiB, or the largest body if that is more.
 *
 * @throws {TypeError} The option is less than 1.
 */
export function ownerBytesLimit(
  where: string, option: number | undefined, blobs: Pick<Blobs, 'maxBytes'>, maxBodyBytes: number,
): number {
  const { maxBytes } = blobs
  const most = option ?? (maxBytes === undefined
    ? Math.max(64 * 2 ** 20, maxBodyBytes)
    : Math.ceil(maxBytes / 4))
  if (most >= 1) return most
  throw new TypeError(`${where}: maxBytesPerOwner must be 1 or more, not ${String(option)}`)
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
