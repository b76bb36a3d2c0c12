import { httpError } from '../http/errors.js'

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
