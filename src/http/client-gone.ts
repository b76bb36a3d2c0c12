/** What tells whether the client of a request is still there. */
interface Watched {
  readonly signal: AbortSignal
  /** Whether `signal` would be aborted by now, without making one. */
  readonly gone?: boolean | undefined
}

/**
 * Whether something stopped only because the client has gone: it failed with the reason of the
 * request's signal.
 */
export function isClientGone(error: unknown, request: Watched): boolean {
  if (!(request.gone ?? request.signal.aborted)) return false
  const { reason } = request.signal as { readonly reason: unknown }
  // Node's own functions wrap the reason, and an upload adds its report.
  return error === reason || (error instanceof Error && error.cause === reason)
}
