import { ClientError } from './errors.js'
import { isObject } from './json-object.js'
import { checkNames } from './option-names.js'

/** What a callback tells of a task that has ended (SPEC 4.8). */
export interface CallbackMessage<R = unknown> {
  /** The same for every delivery of one message: what was seen before can be passed over. */
  readonly id: string
  readonly type: 'task.completed' | 'task.failed' | 'task.cancelled'
  /** When the task ended, as ISO 8601. */
  readonly timestamp: string
  readonly data: {
    readonly taskId: string
    readonly status: 'completed' | 'failed' | 'cancelled'
    readonly result?: R
    readonly error?: { readonly code: string; readonly message: string }
  }
}

/** How a callback is verified. */
export interface VerifyOptions {
  /** How old a message may be, or how far ahead its sender's clock. In seconds, default 300. */
  readonly toleranceSeconds?: number
}

/** The header fields of a request: of `fetch`, or of Node. */
export type CallbackHeaders = Headers | Readonly<Record<string, string | readonly string[] | undefined>>

/** WebCrypto's own; its name is global in browsers only. */
type Key = Awaited<ReturnType<typeof crypto.subtle.importKey>>

const KNOWN = { toleranceSeconds: 0 } satisfies Record<keyof VerifyOptions, 0>

/** A signature is compared with each secret, so there is a bound to what a stranger can ask for. */
const MAX_SIGNATURES = 20

/**
 * Verifies a callback by Standard Webhooks, and gives its message. `body` has to be the bytes, or
 * the text, as they came: not JSON that was parsed and written again. Several secrets serve while
 * one is replaced by another; each is base64, with or without `whsec_`.
 *
 * Rejects with a `ClientError`: `callback_headers_missing`, `callback_expired`,
 * `callback_signature_invalid` or `callback_malformed`. Needs WebCrypto: Node 20 or later, or a
 * secure page. Rejects with a `TypeError` when a secret is none.
 */
export async function verifyCallback<R = unknown>(
  body: string | Uint8Array, headers: CallbackHeaders, secrets: string | readonly string[], options: VerifyOptions = {},
): Promise<CallbackMessage<R>> {
  checkNames('verifyCallback', options, KNOWN)
  const { toleranceSeconds = 300 } = options
  const keys = await Promise.all((typeof secrets === 'string' ? [secrets] : secrets).map(toKey))
  if (keys.length === 0) throw new TypeError('verifyCallback: give it at least one secret')
  const [id, timestamp, signatures] = ['webhook-id', 'webhook-timestamp', 'webhook-signature'].map((name) => field(headers, name))
  if (!id || !timestamp || !signatures) throw new ClientError('callback_headers_missing', 'The request is no signed callback.')
  const age = Date.now() / 1000 - Number(timestamp)
  // Not a number is not within it either.
  if (!/^\d{1,15}$/.test(timestamp) || !(Math.abs(age) <= toleranceSeconds)) {
    throw new ClientError('callback_expired', 'The callback was signed too long ago, or by a clock that is ahead.')
  }
  const bytes = typeof body === 'string' ? new TextEncoder().encode(body) : body
  if (!await isSigned(joined(`${id}.${timestamp}.`, bytes), signatures, keys)) {
    throw new ClientError('callback_signature_invalid', 'No signature of the callback is right.')
  }
  return { ...parse<R>(bytes), id }
}

function field(headers: CallbackHeaders, name: string): string | undefined {
  if (typeof headers['get'] === 'function') return (headers as Headers).get(name) ?? undefined
  const fields = headers as Readonly<Record<string, string | readonly string[] | undefined>>
  const key = Object.keys(fields).find((key) => key.toLowerCase() === name)
  const value = key === undefined ? undefined : fields[key]
  return typeof value === 'string' ? value : undefined
}

async function toKey(secret: string): Promise<Key> {
  const bytes = fromBase64(secret.replace(/^whsec_/, ''))
  if (!bytes || bytes.length === 0) throw new TypeError('verifyCallback: a secret is base64, with or without whsec_ before it')
  return crypto.subtle.importKey('raw', bytes, { name: 'HMAC', hash: 'SHA-256' }, false, ['verify'])
}

/** `verify` compares in constant time. */
async function isSigned(content: Uint8Array<ArrayBuffer>, signatures: string, keys: readonly Key[]): Promise<boolean> {
  for (const signature of signatures.split(' ').slice(0, MAX_SIGNATURES)) {
    const bytes = signature.startsWith('v1,') ? fromBase64(signature.slice(3)) : undefined
    if (!bytes) continue
    for (const key of keys) if (await crypto.subtle.verify('HMAC', key, bytes, content)) return true
  }
  return false
}

function joined(head: string, bytes: Uint8Array): Uint8Array<ArrayBuffer> {
  const start = new TextEncoder().encode(head)
  const whole = new Uint8Array(start.length + bytes.length)
  whole.set(start)
  whole.set(bytes, start.length)
  return whole
}

function fromBase64(text: string): Uint8Array<ArrayBuffer> | undefined {
  try {
    return Uint8Array.from(atob(text), (char) => char.charCodeAt(0))
  } catch {
    return undefined
  }
}

function parse<R>(bytes: Uint8Array): Omit<CallbackMessage<R>, 'id'> {
  try {
    const message: unknown = JSON.parse(new TextDecoder('utf-8', { fatal: true }).decode(bytes))
    if (isObject(message) && typeof message['type'] === 'string' && isObject(message['data'])) return message as unknown as CallbackMessage<R>
  } catch {
    // Said below.
  }
  throw new ClientError('callback_malformed', 'The callback is signed, but is no message about a task.')
}
