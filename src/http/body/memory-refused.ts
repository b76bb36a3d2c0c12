import type { Refusal } from '../../runtime/shared-limit.js'
import { httpError, type HttpError } from '../errors.js'

/**
 * Returns the error for a request that gets no memory: 429 `too_many_requests` or 503 `overloaded`.
 *
 * @param bodies - what takes the memory, such as `large bodies`
 */
export function memoryRefused(code: Refusal, bodies: string): HttpError {
  const whose = code === 'overloaded' ? 'The server' : 'This client'
  return httpError(code, {
    message: `${whose} has too many ${bodies} under way. Send this request again later.`,
    headers: { 'retry-after': '1' },
  })
}
