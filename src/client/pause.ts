import type { ClientError } from './errors.js'
import type { Settings } from './options.js'

/** Resolves after `ms` milliseconds. If the signal aborts before, rejects with its reason. */
export function pause(ms: number, signal?: AbortSignal): Promise<void> {
  return new Promise((resolve, reject) => {
    const over = () => {
      clearTimeout(timer)
      signal?.removeEventListener('abort', over)
      if (signal?.aborted) reject(reasonOf(signal))
      else resolve()
    }
    const timer = setTimeout(over, ms)
    signal?.addEventListener('abort', over)
    if (signal?.aborted) over()
  })
}

/** Returns the reason of an aborted signal. It may be any value; `throw` requires an error. */
export function reasonOf(signal: AbortSignal): Error {
  return signal.reason as Error
}

/** Subtracts up to half of `ms` at random, to spread the retries of many clients. */
export function jitter(ms: number): number {
  return ms * (1 - Math.random() / 2)
}

/**
 * Returns the delay after so many failures in a row: exponential backoff, or what the server asked
 * for and a little more. `undefined` if the server asked for more than this client waits.
 */
export function retryDelay(
  { baseMs, maxMs }: Settings, failures: number, { retryAfter }: ClientError,
): number | undefined {
  const backoff = jitter(Math.min(maxMs, baseMs * 2 ** (failures - 1)))
  if (retryAfter === undefined) return backoff
  const asked = retryAfter * 1000
  return asked > maxMs ? undefined : asked + Math.min(backoff, asked / 10)
}

/**
 * Parses Retry-After (RFC 9110 section 10.2.3), a number or a date, into seconds from now. Returns
 * `undefined` if it is neither.
 */
export function parseRetryAfter(field: string | null): number | undefined {
  if (field === null) return undefined
  if (/^\d{1,10}$/.test(field)) return Number(field)
  const ms = /^[A-Z][a-z]{2}/.test(field) ? Date.parse(field) - Date.now() : NaN
  return Number.isNaN(ms) ? undefined : Math.max(0, Math.ceil(ms / 1000))
}
