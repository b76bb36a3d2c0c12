import { Webhook } from 'standardwebhooks'
import { parseHttpDate } from '../http/fields/dates.js'
import { retryDelay, type Backoff } from '../tasks/definition/define.js'
import type { CallbackFault } from '../tasks/record/details.js'
import type { CallbackReply } from './options.js'

/** End of a task, as its callback reports it. */
export interface Ended {
  readonly id: string
  readonly state: 'completed' | 'failed' | 'cancelled'
  /** Milliseconds since 1970. */
  readonly finishedAt: number
  readonly result: string | undefined
  readonly error: { readonly code: string; readonly message: string } | undefined
}

const CANCELLED = { code: 'task_cancelled', message: 'The task was cancelled.' }

/**
 * Returns the body (Standard Webhooks). Depends on the record alone, so every call returns the same
 * bytes.
 */
export function messageBody({ id, state, finishedAt, result, error }: Ended): string {
  const outcome =
    state === 'completed'
      ? `"result":${result ?? 'null'}`
      : `"error":${JSON.stringify(error ?? CANCELLED)}`
  return `{"type":"task.${state}","timestamp":"${new Date(
    finishedAt,
  ).toISOString()}","data":{"taskId":"${id}","status":"${state}",${outcome}}}`
}

/**
 * Returns the message id. It is the same for every attempt, so that a receiver can detect
 * repetitions. After a retry of the task it is another one.
 *
 * @param round - name of the submission or the retry whose end is reported
 */
export function messageId(id: string, round: string): string {
  return `msg_${id}_${round}`
}

/**
 * Returns the headers that authenticate a body, with one signature for each secret.
 *
 * @throws {TypeError} There is no secret, or one is not valid.
 */
export function signedHeaders(
  secrets: readonly string[],
  id: string,
  now: number,
  body: string,
): Record<string, string> {
  const signers = toSigners(secrets)
  const at = new Date(now)
  return {
    'webhook-id': id,
    'webhook-timestamp': String(Math.floor(now / 1000)),
    'webhook-signature': signers.map((signer) => signer.sign(id, at, body)).join(' '),
  }
}

/** Maximum number of secrets for one callback. Limits the length of the header. */
const MAX_SECRETS = 10

function toSigners(secrets: readonly string[]): Webhook[] {
  if (!Array.isArray(secrets) || secrets.length === 0 || secrets.length > MAX_SECRETS) {
    throw new TypeError(
      'callbacks.secrets must return 1 to 10 secrets for an owner whose tasks have callbacks',
    )
  }
  try {
    return secrets.map((secret: string) => new Webhook(secret))
  } catch {
    // The original error may contain the secret.
    throw new TypeError(
      'callbacks.secrets returned text that is not a secret: ' +
      'each is base64, with or without whsec_',
    )
  }
}

/**
 * Checks that these secrets can sign.
 *
 * @throws {TypeError} There is no secret, or one is not valid.
 */
export function checkSecrets(secrets: readonly string[]): void {
  toSigners(secrets)
}

/** Maximum delay that a Retry-After can request: one day. */
const MAX_WAIT_MS = 86_400_000

/** Consequence of one reply: delivered, failed for good, or retry after a delay. */
export type ReplyOutcome =
  | { readonly kind: 'delivered' }
  | { readonly kind: 'failed'; readonly fault: CallbackFault }
  | { readonly kind: 'retry'; readonly fault: CallbackFault; readonly delayMs: number }

/**
 * Classifies a reply. `tried` counts the attempts of this round, including this one; `left` counts
 * those that remain.
 */
export function classifyReply(
  reply: Exclude<CallbackReply, { readonly fault: 'busy' }>,
  { tried, left, backoff }: { tried: number; left: number; backoff: Backoff },
  now: number,
): ReplyOutcome {
  if ('status' in reply && reply.status >= 200 && reply.status < 300) return { kind: 'delivered' }
  const fault: CallbackFault =
    'fault' in reply ? reply.fault : reply.status === 410 ? 'gone' : 'status'
  // No retry after 410, which declines further requests. No retry for a forbidden address, which
  // would give a name time to resolve to another address.
  if (fault === 'gone' || fault === 'forbidden' || left <= 0) return { kind: 'failed', fault }
  const asked = 'status' in reply ? retryAfterMs(reply.retryAfter, now) : 0
  return { kind: 'retry', fault, delayMs: Math.max(retryDelay(backoff, tried), asked) }
}

/**
 * Returns the delay of a Retry-After (RFC 9110 section 10.2.3) in milliseconds, at most one day.
 * Returns 0 if the field is absent or not valid.
 */
export function retryAfterMs(field: string | undefined, now: number): number {
  if (field === undefined) return 0
  const text = field.trim()
  const ms = /^\d{1,15}$/.test(text) ? Number(text) * 1000 : (parseHttpDate(text) ?? 0) - now
  return Math.min(Math.max(ms, 0), MAX_WAIT_MS)
}
