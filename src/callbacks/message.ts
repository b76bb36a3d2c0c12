import { Webhook } from 'standardwebhooks'

/** How a task ended, as its callback tells it. */
export interface Ended {
  readonly id: string
  readonly state: 'completed' | 'failed' | 'cancelled'
  /** Milliseconds since 1970. */
  readonly createdAt: number
  readonly finishedAt: number
  /** The result as JSON text. */
  readonly result: string | undefined
  readonly error: { readonly code: string; readonly message: string } | undefined
}

const CANCELLED = { code: 'task_cancelled', message: 'The task was cancelled.' }

/**
 * The body (Standard Webhooks): made of what the record says alone, so each making gives the same
 * bytes.
 */
export function messageBody({ id, state, finishedAt, result, error }: Ended): string {
  const outcome = state === 'completed' ? `"result":${result ?? 'null'}` : `"error":${JSON.stringify(error ?? CANCELLED)}`
  return `{"type":"task.${state}","timestamp":"${new Date(finishedAt).toISOString()}","data":{"taskId":"${id}","status":"${state}",${outcome}}}`
}

/** The same for every attempt and redelivery, so that a receiver can tell a repetition. */
export function messageId({ id, createdAt }: Pick<Ended, 'id' | 'createdAt'>): string {
  return `msg_${id}_${createdAt.toString(36)}`
}

/**
 * The header fields that prove who sent a body: one signature for each secret.
 * Throws a `TypeError` when there is no secret, or one that is none.
 */
export function signedHeaders(secrets: readonly string[], id: string, now: number, body: string): Record<string, string> {
  const signers = toSigners(secrets)
  const at = new Date(now)
  return {
    'webhook-id': id,
    'webhook-timestamp': String(Math.floor(now / 1000)),
    'webhook-signature': signers.map((signer) => signer.sign(id, at, body)).join(' '),
  }
}

/** How many secrets one callback may be signed with: a header field has an end. */
const MAX_SECRETS = 10

function toSigners(secrets: readonly string[]): Webhook[] {
  if (!Array.isArray(secrets) || secrets.length === 0 || secrets.length > MAX_SECRETS) {
    throw new TypeError('callbacks.secrets must give 1 to 10 secrets for an owner whose tasks have callbacks')
  }
  try {
    return secrets.map((secret: string) => new Webhook(secret))
  } catch {
    // What was thrown may tell of the secret.
    throw new TypeError('callbacks.secrets gave what is no secret: each is base64, with or without whsec_ before it')
  }
}

/** Throws a `TypeError` unless these secrets can sign. */
export function checkSecrets(secrets: readonly string[]): void {
  toSigners(secrets)
}
