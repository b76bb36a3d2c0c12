import { isStorable } from '../../src/runtime/names.js'
import type { Fault } from '../../src/stores/calls.js'

/** Maximum lifetime, for which a sweep slot has space: 285 years. */
const MAX_TTL_MS = 9_000_000_000_000

/** SQLSTATE of an error that the server reported, such as `23505`. `EPIPE` is a code of Node. */
export function sqlState(error: unknown): string | undefined {
  const { code } = (error ?? {}) as { readonly code?: unknown }
  return typeof code === 'string' && /^(?=.*\d)[0-9A-Z]{5}$/.test(code) ? code : undefined
}

/**
 * Classes of errors that may pass: connection, state of the transaction, authentication, rollback,
 * resources, state of an object, intervention, system, configuration, internal. Any other error is one
 * of the call itself: data (22), constraint (23), syntax and rights (42), limits (54) and so on.
 */
const PASSING = /^(?:08|25|26|28|3D|40|53|55|57|58|F0|XX)/

/** 53100 is `disk_full`. An exceeded quota is an internal error with the message of the system. */
export function faultOf(error: unknown): Fault {
  const state = sqlState(error)
  const isFull = state === '53100' || (state !== undefined && error instanceof Error
    && /no space left on device|disk quota exceeded/i.test(error.message))
  return {
    hasReplied: state !== undefined, reason: isFull ? 'full' : 'unavailable',
    isPermanent: state !== undefined && !isFull && !PASSING.test(state),
  }
}

/**
 * Returns true if the connection must not be used again. Without an SQLSTATE, the connection failed.
 * With 57P… the server is going down, with 08… and 53300 it accepts no connections, with 25006 it is a
 * standby since a fail-over. With 25P02 the application has released a client in a failed transaction.
 */
export function isBroken(error: unknown): boolean {
  const state = sqlState(error)
  return state === undefined || state === '25P02' || UNREACHABLE.test(state)
}

/** The server is going down, accepts no connections, or is a standby. */
const UNREACHABLE = /^(?:08|57P|25006|53300)/
/**
 * Code for a protocol violation. The server uses it for a wrong number of parameters. PgBouncer uses
 * it, with the severity FATAL, if it has no connection to the server.
 */
const PROTOCOL_VIOLATION = '08P01'
/** Codes of Node, postgres.js and Prisma for a connection that was lost or could not be made. */
const LOST_CODES = new Set([
  'ECONNREFUSED', 'ECONNRESET', 'ECONNABORTED', 'EPIPE', 'ETIMEDOUT', 'EHOSTUNREACH', 'ENETUNREACH',
  'ENOTFOUND', 'EAI_AGAIN', 'CONNECTION_CLOSED', 'CONNECTION_DESTROYED', 'CONNECTION_ENDED',
  'CONNECT_TIMEOUT', 'P1001', 'P1002', 'P1017', 'P2024',
])
/** Messages of errors without a code: those of `pg`, of its pool and of the pool of Knex. */
const LOST_MESSAGE = new RegExp([
  '^Connection terminated', '^Client has encountered a connection error and is not queryable',
  '^Client was closed and is not queryable', '^timeout exceeded when trying to connect',
  '^Knex: Timeout acquiring a connection',
].join('|'))
/** Maximum number of nested causes: query builders wrap the errors of the driver. */
const MAX_CAUSES = 5

/**
 * Returns true if an error of the application's own client says that the connection was lost, or
 * could not be made. Like `isBroken`, but an error without an SQLSTATE may also be any other error
 * of the application.
 */
export function isConnectionError(error: unknown): boolean {
  let at: unknown = error
  for (let depth = 0; depth < MAX_CAUSES && at instanceof Error; depth++, at = at.cause) {
    const { code, severity } = at as { readonly code?: unknown, readonly severity?: unknown }
    if (typeof code === 'string' && LOST_CODES.has(code)) return true
    const state = sqlState(at)
    if (state === PROTOCOL_VIOLATION && severity !== 'FATAL') return false
    if (state === undefined ? LOST_MESSAGE.test(at.message) : UNREACHABLE.test(state)) return true
  }
  return false
}

/** Returns true if the connection was lost while a statement ran, whose outcome is unknown. */
export function isLostConnection(error: unknown): boolean {
  if (!(error instanceof Error)) return false
  const state = sqlState(error)
  if (state !== undefined) return state === '57P01'
  // Otherwise no connection could be opened.
  return !('syscall' in error && ['connect', 'getaddrinfo'].includes(String(error.syscall)))
}

/**
 * Checks keys and values: PostgreSQL does not store U+0000, and clients replace half of a surrogate
 * pair.
 */
export function checkText(...texts: readonly (string | undefined)[]): void {
  for (const text of texts) {
    if (text === undefined || isStorable(text)) continue
    throw new TypeError('A key or value must be a well-formed string without U+0000')
  }
}

/** Limits a lifetime in milliseconds. Throws a `TypeError` if it is not finite. */
export function toLifetime(ttlMs: number): number {
  if (!Number.isFinite(ttlMs)) {
    throw new TypeError(`ttlMs must be a number of milliseconds, not ${String(ttlMs)}`)
  }
  return Math.min(Math.max(ttlMs, 0), MAX_TTL_MS)
}

export function expiry(ms: string): string {
  return `clock_timestamp() + ${ms}::float8 * interval '1 ms'`
}

export function slot(time: string): string {
  return `ceil(extract(epoch FROM ${time}) / 600)::integer`
}
