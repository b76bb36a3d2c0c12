import type { Fault } from '../../src/stores/calls.js'

/** SQLSTATE of an error that the server reported, such as `23505`. */
export function sqlState(error: unknown): string | undefined {
  const { code } = (error ?? {}) as { readonly code?: unknown }
  return typeof code === 'string' && /^[0-9A-Z]{5}$/.test(code) ? code : undefined
}

/** Returns the meaning of an error of a client, for the breaker. */
export function faultOf(error: unknown): Fault {
  const state = sqlState(error)
  return {
    answered: state !== undefined,
    reason: isFull(state, error) ? 'full' : 'unavailable',
  }
}

/**
 * Returns true if a connection must not be used again after this error. Without an SQLSTATE the
 * error is one of the connection. With these, the server is going down (57P01 to 57P05), refuses
 * connections (08…, 53300), or is a standby since a fail-over (25006): a new connection may reach
 * the new primary. With 25P02, the application has released a client in a failed transaction.
 */
export function isBroken(error: unknown): boolean {
  const state = sqlState(error)
  return state === undefined || /^(?:08|57P|25006|25P02|53300)/.test(state)
}

/** Returns true if the connection was lost while a statement ran, so its outcome is open. */
export function isLostConnection(error: unknown): boolean {
  const state = sqlState(error)
  return error instanceof Error && (state === undefined ? !isRefused(error) : state === '57P01')
}

/** True if no connection could be opened. */
function isRefused(error: Error): boolean {
  return 'syscall' in error && ['connect', 'getaddrinfo'].includes(String(error.syscall))
}

/** 53100 is `disk_full`. A quota is reported as an internal error with the text of the system. */
function isFull(state: string | undefined, error: unknown): boolean {
  if (state === '53100') return true
  return state !== undefined && error instanceof Error
    && /no space left on device|disk quota exceeded/i.test(error.message)
}
