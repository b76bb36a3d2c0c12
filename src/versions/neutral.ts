import { describe, type Handler } from '../http/exchange.js'
import { checkNames } from '../runtime/option-names.js'
import { innerRequests } from './inner-request.js'
import type { Selector } from './selectors.js'

/**
 * A handler that is the same in every version, such as a health check: it answers whatever version
 * a request names, or none, also one that is not served, and sees the request as a handler of
 * `versions` would.
 */
export function versionNeutral<C = unknown>(handler: Handler<C>, options: {
  /** The selectors of `versions`, which find the version that the request names. */
  readonly select: readonly Selector[],
}): Handler<C> {
  checkNames('versionNeutral', options, { select: 0 })
  const { select } = options
  if (select.length === 0) throw new TypeError('versionNeutral: name the ways that versions() has, such as byPath()')
  const inner = innerRequests<C>(select)
  const neutral: Handler<C> = (request) => handler(inner(request))
  return handler.operations ? describe(neutral, handler.operations) : neutral
}
