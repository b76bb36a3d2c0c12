import { createHash, type Hash } from 'node:crypto'
import { httpError } from '../http/errors.js'
import type { HttpRequest } from '../http/exchange.js'
import { principalOrNobody } from '../http/principal.js'

const QUOTED = /^"((?:[ !#-[\]-~]|\\["\\])*)"$/
const BARE = /^[!#-+\--~]+$/

/**
 * Reads the Idempotency-Key field (draft-ietf-httpapi-idempotency-key-header): 1 to 255 visible
 * characters, quoted or bare.
 *
 * @returns `undefined` without the field
 * @throws {HttpError} 400 `invalid_idempotency_key` for anything else
 */
export function parseIdempotencyKey(field: string | string[] | undefined): string | undefined {
  if (field === undefined) return undefined
  const text = typeof field === 'string' ? field.trim() : ''
  const key = text.length > 600
    ? undefined
    : (QUOTED.exec(text)?.[1]?.replaceAll(/\\(.)/g, '$1') ?? BARE.exec(text)?.[0])
  if (key !== undefined && key.length >= 1 && key.length <= 255) return key
  throw httpError('invalid_idempotency_key', {
    message: 'Idempotency-Key must be one key of 1 to 255 visible characters, in quotes or bare.',
  })
}

/** Header fields with credentials. */
export const CREDENTIALS = ['authorization', 'cookie', 'proxy-authorization', 'x-api-key'] as const

/**
 * Returns the store key of a claim. An Idempotency-Key belongs to one caller, method, path (mount
 * path included) and chosen version. With another of these, the same text is another key.
 *
 * @param caller - the owner of the work. If `undefined`, the caller is the subject of the request's
 * principal, or else the values of `Authorization`, `Cookie`, `Proxy-Authorization` and `X-Api-Key`.
 * @throws {TypeError} The host has a user (`context.user`) but has set neither caller nor
 * principal. All users would share keys.
 */
export function claimKey(
  request: HttpRequest<unknown>, caller: string | undefined, key: string,
): string {
  const { method, path, version = null } = request
  const scope = [callerOf(request, caller), method, path, version, key]
  return `idempotency:${digestOf(JSON.stringify(scope))}`
}

function callerOf(request: HttpRequest<unknown>, caller: string | undefined): readonly unknown[] {
  if (caller !== undefined) return ['owner', caller]
  const subject = principalOrNobody(request, 'Idempotency-Key')?.subject
  if (subject !== undefined) return ['subject', subject]
  return ['credentials', ...CREDENTIALS.map((name) => request.headers[name] ?? null)]
}

/**
 * Number of characters that are hashed in one call, since a call for each token would cost more.
 */
const CHUNK = 65_536

/**
 * Returns the SHA-256 of a JSON value in a canonical form: properties in the order of their names'
 * UTF-16 code units, without spaces (RFC 8785). So it does not change when a client sends the same
 * properties in another order.
 *
 * A value that is not JSON is read as `JSON.stringify` reads it: calls `toJSON`, omits `undefined`
 * properties. Reads nesting of any depth without recursion.
 */
export function fingerprintOf(value: unknown): string {
  const hash = createHash('sha256')
  let text = ''
  const left: Step[] = [{ value }]
  for (let step = left.pop(); step !== undefined; step = left.pop()) {
    text += 'text' in step ? step.text : begin(step.value, left)
    if (text.length > CHUNK) text = flush(hash, text)
  }
  flush(hash, text)
  return hash.digest('base64url')
}

/** A value that is not written yet, or text between values. */
type Step = { readonly value: unknown } | { readonly text: string }

function flush(hash: Hash, text: string): '' {
  hash.update(text)
  return ''
}

function begin(given: unknown, left: Step[]): string {
  const value = hasToJson(given) ? given.toJSON() : given
  if (typeof value !== 'object' || value === null) return JSON.stringify(value) ?? ''
  if (Array.isArray(value)) {
    left.push({ text: ']' })
    for (let at = value.length - 1; at >= 0; at--) {
      left.push({ value: value[at] })
      if (at > 0) left.push({ text: ',' })
    }
    return '['
  }
  const members = value as Readonly<Record<string, unknown>>
  const names = Object.keys(members).filter((name) => members[name] !== undefined).sort()
  left.push({ text: '}' })
  for (let at = names.length - 1; at >= 0; at--) {
    const name = names[at] as string
    left.push({ value: members[name] }, { text: `${at > 0 ? ',' : ''}${JSON.stringify(name)}:` })
  }
  return '{'
}

function hasToJson(value: unknown): value is { toJSON(): unknown } {
  if (typeof value !== 'object' || value === null) return false
  return typeof (value as { toJSON?: unknown }).toJSON === 'function'
}

export function digestOf(data: string | Uint8Array): string {
  return createHash('sha256').update(data).digest('base64url')
}
