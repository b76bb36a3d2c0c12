import type { ClientError } from './errors.js'
import type { Settings } from './options.js'

/** Resolves after so many milliseconds; rejects with the signal's reason when it aborts before. */
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

/**
 * Why a signal was aborted. What callers abort with is theirs, but it has to be thrown as an error.
 */
export function reasonOf(signal: AbortSignal): Error {
  return signal.reason as Error
}

/** Up to a half of `ms` less: many clients that failed together don't come back together. */
export function jitter(ms: number): number {
  return ms * (1 - Math.random() / 2)
}

/**
 * How long to wait after so many failures in a row: as long as the server asks for and a little
 * more, else longer each time. `undefined` when it asks for more than this client waits.
 */
export function retryDelay({ baseMs, maxMs }: Settings, failures: number, { retryAfter }: ClientError): number | undefined {
  const backoff = jitter(Math.min(maxMs, baseMs * 2 ** (failures - 1)))
  if (retryAfter === undefined) return backoff
  const asked = retryAfter * 1000
  return asked > maxMs ? undefined : asked + Math.min(backoff, asked / 10)
}

/**
 * Retry-After (RFC 9110 section 10.2.3) in seconds from now: a number, or a date. `undefined` when
 * it is neither.
 */
export function parseRetryAfter(field: string | null): number | undefined {
  if (field === null) return undefined
  if (/^\d{1,10}$/.test(field)) return Number(field)
  const ms = /^[A-Z][a-z]{2}/.test(field) ? Date.parse(field) - Date.now() : NaN
  return Number.isNaN(ms) ? undefined : Math.max(0, Math.ceil(ms / 1000))
}
