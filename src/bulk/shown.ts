import { httpError } from '../http/errors.js'
import type { HttpRequest } from '../http/exchange.js'
import { parsePrefer } from '../http/fields/prefer.js'
import type { Shown } from './report.js'

/**
 * Which items a request wants to see: `?only=failed`, or none for `Prefer: return=minimal`. Throws
 * `invalid_query`.
 */
export function shownTo(request: HttpRequest): Shown {
  const failed = onlyFailed(request)
  const { prefer } = request.headers
  if (prefer !== undefined && parsePrefer(prefer).return === 'minimal') return 'none'
  return failed ? 'failed' : 'all'
}

/** Whether `?only=failed` is there. Throws `invalid_query` for another value, and for several. */
export function onlyFailed({ query }: HttpRequest): boolean {
  const only = query.getAll('only')
  if (only.length === 0) return false
  if (only.length === 1 && only[0] === 'failed') return true
  throw httpError('invalid_query', { message: 'The parameter only can be "failed", once.', details: [{ pointer: '/only', message: 'must be "failed"' }] })
}
