/** Delay between attempts. */
export interface Backoff {
  readonly type: 'fixed' | 'exponential'
  /**
   * Delay before the second attempt in milliseconds. `exponential` doubles it for each further
   * attempt.
   */
  readonly delayMs: number
  /** Maximum delay in milliseconds. Default: one hour. */
  readonly maxDelayMs?: number
  /** Random share of the delay, 0 to 1, so that retries of many tasks do not coincide. Default 0. */
  readonly jitter?: number
}

/** Back-off of a definition that has none: exponential from 1 second, half of it random. */
export const BACKOFF: Backoff = { type: 'exponential', delayMs: 1000, jitter: 0.5 }

/**
 * Default `attempts` of work that the library can repeat: imports, bulk tasks and exports. With
 * `BACKOFF` they last for 31 to 63 seconds, so a database may restart meanwhile.
 */
export const REPEATABLE_ATTEMPTS = 7

const HOUR = 3_600_000

/**
 * Returns the delay in milliseconds after `failed` failed attempts (from 1). `random` returns 0 to
 * 1.
 */
export function retryDelay(
  backoff: Backoff | undefined,
  failed: number,
  random: () => number = Math.random,
): number {
  if (backoff === undefined) return 0
  const growth = backoff.type === 'exponential' ? 2 ** Math.min(failed - 1, 52) : 1
  const delay = Math.min(backoff.delayMs * growth, backoff.maxDelayMs ?? HOUR)
  return Math.round(delay * (1 - (backoff.jitter ?? 0) * random()))
}

/**
 * Checks a back-off.
 *
 * @throws {TypeError} A member is out of range.
 */
export function checkBackoff(backoff: Backoff): void {
  const { type, delayMs, maxDelayMs = HOUR, jitter = 0 } = backoff
  if (type !== 'fixed' && type !== 'exponential') {
    throw new TypeError(`backoff.type must be fixed or exponential, not ${String(type)}`)
  }
  if (!(delayMs >= 0 && Number.isFinite(delayMs))) {
    throw new TypeError(`backoff.delayMs must be 0 or more milliseconds, not ${String(delayMs)}`)
  }
  if (!(maxDelayMs >= 0 && Number.isFinite(maxDelayMs))) {
    throw new TypeError(
      `backoff.maxDelayMs must be 0 or more milliseconds, not ${String(maxDelayMs)}`,
    )
  }
  if (!(jitter >= 0 && jitter <= 1)) {
    throw new TypeError(`backoff.jitter must be 0 to 1, not ${String(jitter)}`)
  }
}
