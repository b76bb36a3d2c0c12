/** Maximum lifetime: 285 years. Later times would not fit in a sweep slot for ever. */
export const MAX_TTL_MS = 9_000_000_000_000

/** Returns SQL of the time that is `ms` milliseconds from now, by the server's clock. */
export function expiry(ms: string): string {
  return `clock_timestamp() + ${ms}::float8 * interval '1 ms'`
}

/** Returns SQL of the sweep slot of an expiry: its 10 minutes, rounded up. */
export function slot(time: string): string {
  return `ceil(extract(epoch FROM ${time}) / 600)::integer`
}

/**
 * Returns a lifetime within the limits of the tables, in milliseconds.
 *
 * @throws {TypeError} `ttlMs` is not a finite number.
 */
export function toLifetime(ttlMs: number): number {
  if (!Number.isFinite(ttlMs)) {
    throw new TypeError(`ttlMs must be a number of milliseconds, not ${String(ttlMs)}`)
  }
  return Math.min(Math.max(ttlMs, 0), MAX_TTL_MS)
}
