import { httpError } from '../http/errors.js'
import type { HttpRequest } from '../http/exchange.js'
import { parsePrefer } from '../http/fields/prefer.js'

/** Items that a report lists. */
export type ItemSelection = 'all' | 'failed' | 'none'

/**
 * Returns the items that a request wants listed: `failed` for `?only=failed`, `none` for `Prefer:
 * return=minimal`.
 *
 * @throws {HttpError} `invalid_query`
 */
export function selectedItems(request: HttpRequest): ItemSelection {
  const failed = isOnlyFailed(request)
  const { prefer } = request.headers
  if (prefer !== undefined && parsePrefer(prefer).return === 'minimal') return 'none'
  return failed ? 'failed' : 'all'
}

/**
 * Returns true for `?only=failed`.
 *
 * @throws {HttpError} `invalid_query`: the parameter has another value, or is repeated.
 */
export function isOnlyFailed({ query }: HttpRequest): boolean {
  const only = query.getAll('only')
  if (only.length === 0) return false
  if (only.length === 1 && only[0] === 'failed') return true
  throw httpError('invalid_query', {
    message: 'The parameter only can be "failed", once.',
    details: [{ pointer: '/only', message: 'must be "failed"' }],
  })
}
