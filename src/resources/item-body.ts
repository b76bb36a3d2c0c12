import { readJson } from '../http/body/body.js'
import { httpError, isHttpError, type HttpError } from '../http/errors.js'
import type { HttpRequest } from '../http/exchange.js'
import { validate } from '../schema/validate.js'
import type { Schema } from '../schema/schema.js'

/** What a PATCH may be written in; both are read as a merge patch (RFC 7396). */
export const PATCH_TYPES = ['application/merge-patch+json', 'application/json']

/**
 * The body as JSON. Where it must be of certain types, the 415 says so as RFC 5789 section 2.2
 * wants it.
 */
export async function readBody(
  request: HttpRequest<unknown>, maxBodyBytes: number, mediaTypes?: readonly string[],
): Promise<unknown> {
  if (mediaTypes === undefined) return await readJson(request, { maxBodyBytes })
  try {
    return await readJson(request, { maxBodyBytes, mediaTypes })
  } catch (error) {
    if (!isHttpError(error) || error.code !== 'unsupported_media_type') throw error
    throw httpError('unsupported_media_type', { headers: { ...error.headers, 'accept-patch': mediaTypes.join(', ') } })
  }
}

/** What comes out of a schema. Throws `invalid_input` (400). */
export async function validated<T>(schema: Schema<T>, value: unknown): Promise<T> {
  const result = await validate(schema, value)
  if ('details' in result) throw httpError('invalid_input', { details: result.details })
  return result.value
}

/** One thing that is wrong with a body. */
export function invalidInput(pointer: string, message: string): HttpError {
  return httpError('invalid_input', { details: [{ pointer, message }] })
}
