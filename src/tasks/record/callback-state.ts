/**
 * Reason why a callback is not delivered, or not yet: nobody answered, a status that is no 2xx, or a
 * process that went away.
 */
export type CallbackFault = 'forbidden' | 'unreachable' | 'timeout' | 'status' | 'gone' | 'interrupted'

/** State of a task's callback. Times are milliseconds since 1970. */
export interface CallbackState {
  readonly url: string
  /** `waiting`: for the end of the task. `pending`: until it is delivered or given up. */
  readonly state: 'waiting' | 'pending' | 'delivered' | 'failed'
  /** Requests made so far. */
  readonly attempts: number
  /** The status of the last answer. */
  readonly lastStatus?: number | undefined
  readonly fault?: CallbackFault | undefined
  readonly nextAttemptAt?: number | undefined
  readonly deliveredAt?: number | undefined
}

/**
 * The same as clients see it; the URL is left out, because it may hold a secret. Times are ISO
 * 8601.
 */
export interface CallbackView {
  readonly state: CallbackState['state']
  readonly attempts: number
  readonly lastStatus?: number
  readonly fault?: CallbackFault
  readonly nextAttemptAt?: string
  readonly deliveredAt?: string
}

/** The state as clients see it, as JSON text. */
export function callbackText(
  { state, attempts, lastStatus, fault, nextAttemptAt, deliveredAt }: CallbackState,
): string {
  const view: { [K in keyof CallbackView]: CallbackView[K] | undefined } = {
    state, attempts, lastStatus, fault, nextAttemptAt: toIso(nextAttemptAt),
    deliveredAt: toIso(deliveredAt),
  }
  return JSON.stringify(view)
}

function toIso(ms: number | undefined): string | undefined {
  return ms === undefined ? undefined : new Date(ms).toISOString()
}
