import { Webhook } from 'standardwebhooks'
import type { StoredTask } from '../engine/task.js'
import { parseHttpDate } from '../http/headers/dates.js'
import { retryDelay, type Backoff } from '../tasks/definition/define.js'
import type { CallbackDetails, Details } from '../tasks/record/details.js'
import { openInputsText } from '../tasks/record/inputs.js'
import type { CallbackReply } from './options.js'

const CANCELLED = { code: 'task_cancelled', message: 'The task was cancelled.' }

export function messageBody(
  task: Pick<StoredTask, 'id' | 'status' | 'createdAt' | 'finishedAt' | 'result'>
    & Partial<Pick<StoredTask, 'details'>>,
): string {
  const { id, status, createdAt, result = 'null' } = task
  const { error = CANCELLED, inputs = {} }: Details = task.details ?? {}
  const outcome = status === 'completed' ? `"result":${result}`
    : status === 'input_required' ? `"inputs":${openInputsText(inputs)}` : `"error":${JSON.stringify(error)}`
  const askedAt = Math.max(createdAt, ...Object.values(inputs).map((input) => input.askedAt))
  const { finishedAt = askedAt } = task
  const data = `{"taskId":"${id}","status":"${status}",${outcome}}`
  return `{"type":"task.${status}","timestamp":"${new Date(finishedAt).toISOString()}","data":${data}}`
}

export function signedHeaders(
  secrets: readonly string[], id: string, now: number, body: string,
): Record<string, string> {
  const at = new Date(now)
  const signatures = signersOf(secrets).map((signer) => signer.sign(id, at, body))
  return {
    'webhook-id': id,
    'webhook-timestamp': String(Math.floor(now / 1000)),
    'webhook-signature': signatures.join(' '),
  }
}

const MAX_SECRETS = 10

export function signersOf(secrets: readonly string[]): readonly Webhook[] {
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
      'callbacks.secrets returned text that is not a secret: each is base64, with or without whsec_',
    )
  }
}

const MAX_WAIT_MS = 86_400_000

export type EndedReply = Exclude<CallbackReply, { readonly fault: 'busy' }>

export function afterAttempt(
  { url, attempts: before, first = 1 }: CallbackDetails, reply: EndedReply,
  { attempts: maxAttempts, backoff }: { readonly attempts: number, readonly backoff: Backoff },
): { readonly callback: CallbackDetails, readonly callbackMs: number | null } {
  const attempts = before + 1
  const tried = attempts - first + 1
  const now = Date.now()
  const { status: lastStatus, retryAfter } = 'status' in reply ? reply : {}
  const seen = { url, attempts, first, lastStatus }
  if (lastStatus !== undefined && lastStatus >= 200 && lastStatus < 300) {
    return { callback: { ...seen, state: 'delivered', deliveredAt: now }, callbackMs: null }
  }
  const fault = 'fault' in reply ? reply.fault : lastStatus === 410 ? 'gone' : 'status'
  // No retry after 410, which declines further requests. No retry for a forbidden address, which
  // would give a name time to resolve to another address.
  if (fault === 'gone' || fault === 'forbidden' || tried >= maxAttempts) {
    return { callback: { ...seen, state: 'failed', fault }, callbackMs: null }
  }
  const callbackMs = Math.max(retryDelay(backoff, tried), retryAfterMs(retryAfter, now))
  return { callback: { ...seen, state: 'pending', fault }, callbackMs }
}

/** Returns the delay of a Retry-After (RFC 9110 section 10.2.3), or 0 if it is not valid. */
function retryAfterMs(header = '', now: number): number {
  const text = header.trim()
  const ms = /^\d{1,15}$/.test(text) ? Number(text) * 1000 : (parseHttpDate(text) ?? 0) - now
  return Math.min(Math.max(ms, 0), MAX_WAIT_MS)
}
