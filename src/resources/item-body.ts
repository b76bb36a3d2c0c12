import { readJson } from '../http/body/body.js'
import { httpError, isHttpError, type HttpError } from '../http/errors.js'
import type { HttpRequest } from '../http/exchange.js'
import { validate } from '../schema/validate.js'
import type { Schema } from '../schema/schema.js'

/** Media types of a PATCH. Both are read as a merge patch (RFC 7396). */
export const PATCH_TYPES = ['application/merge-patch+json', 'application/json']

/** Reads the body as JSON. With `mediaTypes`, a 415 lists them as in RFC 5789 section 2.2. */
export async function readBody(
  request: HttpRequest<unknown>, maxBodyBytes: number, mediaTypes?: readonly string[],
): Promise<unknown> {
  if (mediaTypes === undefined) return await readJson(request, { maxBodyBytes })
  try {
    return await readJson(request, { maxBodyBytes, mediaTypes })
  } catch (error) {
    if (!isHttpError(error) || error.code !== 'unsupported_media_type') throw error
    const headers = { ...error.headers, 'accept-patch': mediaTypes.join(', ') }
    throw httpError('unsupported_media_type', { headers })
  }
}

/** Validates a value. Throws `invalid_input` (400). */
export async function validated<T>(schema: Schema<T>, value: unknown): Promise<T> {
  const result = await validate(schema, value)
  if ('details' in result) throw httpError('invalid_input', { details: result.details })
  return result.value
}

/** Returns the error for one fault of a body. */
export function invalidInput(pointer: string, message: string): HttpError {
  return httpError('invalid_input', { details: [{ pointer, message }] })
}
