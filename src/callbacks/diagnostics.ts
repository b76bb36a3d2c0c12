import { channel } from 'node:diagnostics_channel'
import type { CallbackFault } from '../tasks/record/details.js'

/**
 * Event on the diagnostics channel `longhaul:callback`: one for each attempt, in the process that
 * made it.
 */
export interface CallbackEvent {
  /** `retry`: another attempt will follow. */
  readonly outcome: 'delivered' | 'retry' | 'failed'
  readonly taskId: string
  readonly owner: string | undefined
  /** Host and port of the receiver. The rest of its URL may contain a secret. */
  readonly host: string
  /** Number of the attempt, from 1. */
  readonly attempt: number
  /** Status of the response, if there was one. */
  readonly status: number | undefined
  readonly fault: CallbackFault | undefined
  /** Duration of the request in milliseconds. */
  readonly ms: number
}

/** Diagnostics channel of callback attempts. Check `hasSubscribers` before creating an event. */
export const callbackEvents = channel('longhaul:callback')
