import { describe, type Handler } from '../http/exchange.js'
import { checkNames } from '../runtime/option-names.js'
import { innerRequests } from './inner-request.js'
import type { Selector } from './selectors.js'

/**
 * Serves a handler in every version, such as a health check. It answers requests that name any
 * version, an unknown one included, or none. The handler sees the request as a handler of
 * `versions` does.
 *
 * @example
 * const health = versionNeutral(() => json(200, { ok: true }), { select: [byPath()] })
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
