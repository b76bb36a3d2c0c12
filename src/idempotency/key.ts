import { createHash } from 'node:crypto'
import { isJsonObject } from '../http/body/json.js'
import { httpError } from '../http/errors.js'
import type { HttpRequest } from '../http/exchange.js'
import { principalOrNobody } from '../http/principal.js'
import { ownerOfPrincipal } from '../http/requester.js'

const QUOTED = /^"((?:[ !#-[\]-~]|\\["\\])*)"$/
const BARE = /^[!#-+\--~]+$/

/** Reads the Idempotency-Key header (draft-ietf-httpapi-idempotency-key-header), quoted or bare. */
export function parseIdempotencyKey(header: string | string[] | undefined): string | undefined {
  if (header === undefined) return undefined
  const text = typeof header === 'string' ? header.trim() : ''
  const key = text.length > 600
    ? undefined
    : (QUOTED.exec(text)?.[1]?.replaceAll(/\\(.)/g, '$1') ?? BARE.exec(text)?.[0])
  if (key !== undefined && key.length >= 1 && key.length <= 255) return key
  throw httpError('invalid_idempotency_key', {
    message: 'Idempotency-Key must be one key of 1 to 255 visible characters, in quotes or bare.',
  })
}

export const CREDENTIALS = ['authorization', 'cookie', 'proxy-authorization', 'x-api-key'] as const

/** Returns the store key of a claim, which belongs to one caller, method, path and version. */
export function claimKey(
  request: HttpRequest<unknown>, owner: string | undefined, key: string,
): string {
  const { method, path, version = null } = request
  const scope = [callerOf(request, owner), method, path, version, key]
  return `idempotency:${digestOf(JSON.stringify(scope))}`
}

function callerOf(request: HttpRequest<unknown>, owner: string | undefined): readonly unknown[] {
  if (owner !== undefined) return ['owner', owner]
  const principal = principalOrNobody(request, 'Idempotency-Key')
  const subject = principal && ownerOfPrincipal('Idempotency-Key: ', principal)
  if (subject !== undefined) return ['subject', subject]
  return ['credentials', ...CREDENTIALS.map((name) => request.headers[name] ?? null)]
}

/** Does not depend on the order of properties. Throws if the value is nested too deeply. */
export function fingerprintOf(value: unknown): string {
  return digestOf(JSON.stringify(value, sorted) ?? '')
}

function sorted(_name: string, value: unknown): unknown {
  if (!isJsonObject(value)) return value
  // Without a prototype, because a property may have the name `__proto__`.
  const copy = Object.create(null) as Record<string, unknown>
  for (const name of Object.keys(value).sort()) copy[name] = value[name]
  return copy
}

export function digestOf(data: string | Uint8Array): string {
  return createHash('sha256').update(data).digest('base64url')
}
