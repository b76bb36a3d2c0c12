import type { CallbackBody } from '../wire/task.js'
import { checkNames, ClientError, isObject, unchecked } from './errors.js'

/** The message of a callback: a task is final, or asks. */
export interface CallbackMessage<R = unknown> extends CallbackBody<R> {
  /**
   * Identifier of the message, the same in every delivery. Ignore a message that you have processed
   * before.
   */
  readonly id: string
}

/** Options of `verifyCallback`. */
export interface VerifyOptions {
  /** Maximum difference between the message's time and this clock, in seconds. Default: 300. */
  readonly toleranceSeconds?: number
}

/** Headers of a request of `fetch` or of Node. */
export type CallbackHeaders =
  | Headers | Readonly<Record<string, string | readonly string[] | undefined>>

type Key = Awaited<ReturnType<typeof crypto.subtle.importKey>>

/** Limits the work for a forged request. */
const MAX_SIGNATURES = 20

/**
 * Verifies the signature of a callback (Standard Webhooks, by WebCrypto) and returns its message.
 * @param body - the bytes or the string as received, not JSON that was parsed and written again
 * @param secrets - base64, with or without `whsec_`; several while you replace one
 * @throws {ClientError} `callback_headers_missing`, `callback_expired`,
 * `callback_signature_invalid` or `callback_malformed`.
 * @throws {TypeError} A secret is not base64, or there is none.
 * @example
 * import { verifyCallback } from 'longhaul/callbacks'
 *
 * export async function receive(request: Request): Promise<Response> {
 *   const { data } = await verifyCallback(await request.text(), request.headers, 'whsec_c2VjcmV0')
 *   console.log(data.taskId, data.status)
 *   return new Response(null, { status: 204 })
 * }
 */
export async function verifyCallback<R = unknown>(
  body: string | Uint8Array, headers: CallbackHeaders, secrets: string | readonly string[],
  options: VerifyOptions = {},
): Promise<CallbackMessage<R>> {
  checkNames('verifyCallback', options, ['toleranceSeconds'])
  const { toleranceSeconds = 300 } = options
  const keys = await Promise.all((typeof secrets === 'string' ? [secrets] : secrets).map(toKey))
  if (keys.length === 0) throw new TypeError('verifyCallback: at least one secret is required')
  const id = valueOf(headers, 'webhook-id')
  const timestamp = valueOf(headers, 'webhook-timestamp')
  const signatures = valueOf(headers, 'webhook-signature')
  if (!id || !timestamp || !signatures) {
    throw new ClientError('callback_headers_missing', 'The request is not a signed callback.')
  }
  const age = Date.now() / 1000 - Number(timestamp)
  // Negated, because NaN must not pass.
  if (!/^\d{1,15}$/.test(timestamp) || !(Math.abs(age) <= toleranceSeconds)) {
    const message = 'The callback was signed too long ago, or by a clock that is ahead.'
    throw new ClientError('callback_expired', message)
  }
  const content = typeof body === 'string' ? body : new Uint8Array(body)
  const signed = new Blob([`${id}.${timestamp}.`, content])
  if (!await isSigned(await signed.arrayBuffer(), signatures, keys)) {
    throw new ClientError('callback_signature_invalid', 'No signature of the callback is valid.')
  }
  return { ...parse<R>(body), id }
}

function valueOf(headers: CallbackHeaders, name: string): string | undefined {
  const value = typeof headers['get'] === 'function'
    ? (headers as Headers).get(name)
    : Object.entries(headers).find(([each]) => each.toLowerCase() === name)?.[1] as unknown
  return typeof value === 'string' ? value : undefined
}

async function toKey(secret: string): Promise<Key> {
  const bytes = fromBase64(secret.replace(/^whsec_/, ''))
  if (!bytes?.length) {
    throw new TypeError('verifyCallback: a secret must be base64, with or without whsec_ before it')
  }
  return crypto.subtle.importKey('raw', bytes, { name: 'HMAC', hash: 'SHA-256' }, false, ['verify'])
}

async function isSigned(
  content: ArrayBuffer, signatures: string, keys: readonly Key[],
): Promise<boolean> {
  for (const signature of signatures.split(' ').slice(0, MAX_SIGNATURES)) {
    const bytes = signature.startsWith('v1,') ? fromBase64(signature.slice(3)) : undefined
    if (!bytes) continue
    for (const key of keys) {
      if (await crypto.subtle.verify('HMAC', key, bytes, content)) return true
    }
  }
  return false
}

function fromBase64(text: string): Uint8Array<ArrayBuffer> | undefined {
  try {
    return Uint8Array.from(atob(text), (char) => char.charCodeAt(0))
  } catch {
    return undefined
  }
}

function parse<R>(body: string | Uint8Array): CallbackBody<R> {
  try {
    const text = typeof body === 'string'
      ? body : new TextDecoder('utf-8', { fatal: true }).decode(body)
    const message: unknown = JSON.parse(text)
    const { type, data } = unchecked<CallbackBody>(message)
    if (typeof type === 'string' && isObject(data)) return message as CallbackBody<R>
  } catch {
    // The error below covers it.
  }
  const text = 'The callback is signed, but is not a message about a task.'
  throw new ClientError('callback_malformed', text)
}
