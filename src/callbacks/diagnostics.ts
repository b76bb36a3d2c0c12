import { channel } from 'node:diagnostics_channel'
import type { CallbackFault } from '../tasks/record/callback-state.js'

/**
 * What `diagnostics_channel` `longhaul:callback` tells of each attempt, in the process that made
 * it.
 */
export interface CallbackEvent {
  /** `retry`: another attempt will follow. */
  readonly outcome: 'delivered' | 'retry' | 'failed'
  readonly taskId: string
  readonly owner: string | undefined
  /** Host and port of the receiver; the rest of its URL may hold a secret. */
  readonly host: string
  /** From 1. */
  readonly attempt: number
  /** The status of the answer, if there was one. */
  readonly status: number | undefined
  readonly fault: CallbackFault | undefined
  /** How long the request took, in milliseconds. */
  readonly ms: number
}

/** `hasSubscribers` is to be asked first: to make an event costs more than to tell it to nobody. */
export const callbackEvents = channel('longhaul:callback')
