import { httpError } from '../http/errors.js'
import type { Handler } from '../http/exchange.js'
import { checkNames } from '../runtime/option-names.js'
import { MethodTable, STANDARD_METHODS, unknownMethod } from './methods.js'

/** The handlers of a resource by method: `{ GET, PUT, DELETE }`. */
export type Methods<C = unknown> = Readonly<Record<string, Handler<C>>>

/** Options of `resource`. */
export interface ResourceOptions {
  /**
   * Methods that may have a handler although they are not registered with IANA, such as `BREW`.
   * Default: none, so that a misspelt method is found.
   */
  readonly extensionMethods?: readonly string[]
}

const METHOD = /^[A-Z][A-Z0-9!#$%&'*+.^_`|~-]*$/
const KNOWN = { extensionMethods: 0 } satisfies Record<keyof ResourceOptions, 0>

/**
 * Combines handlers for the methods of one resource (RFC 9110 section 9). Use it in hosts that have
 * routes of their own and send all methods of a path here. `router()` does the same for many paths.
 *
 * - HEAD calls the handler of GET; the binding leaves the body out.
 * - OPTIONS: 200 with `Allow`, and with `Accept-Patch`, `Accept-Post` and `Accept-Ranges` if the
 * handlers describe them.
 * - Another method: 405 `method_not_allowed` with `Allow`. If it is not in RFC 9110 or RFC 5789:
 * 501 `not_implemented`.
 * - CONNECT never arrives here: see `attach` of `longhaul/node`.
 *
 * @example
 * app.all('/time', toNode(resource({ GET: () => json(200, { now: new Date().toISOString() }) })))
 *
 * @throws {TypeError} There is no method, or a method is unknown, not in upper case or has no
 * function.
 */
export function resource<C = unknown>(
  methods: Methods<C>, options: ResourceOptions = {},
): Handler<C> {
  checkNames('resource', options, KNOWN)
  const { extensionMethods = [] } = options
  const table = new MethodTable<C>()
  for (const [method, handler] of Object.entries(methods)) {
    if (!METHOD.test(method)) {
      const advice = 'write it in upper case, such as GET'
      throw new TypeError(`resource: ${JSON.stringify(method)} is no method; ${advice}`)
    }
    const fault = unknownMethod(method, extensionMethods)
    if (fault !== undefined) throw new TypeError(`resource: ${fault}`)
    if (typeof handler !== 'function') {
      throw new TypeError(`resource: ${method} needs a handler, a function`)
    }
    table.add(method, handler)
  }
  if (table.allow === '') {
    throw new TypeError('resource: there are no methods; pass an object such as { GET: handler }')
  }

  const handle: Handler<C> = (request) => {
    const { method } = request
    const handler = table.find(method)
    if (handler !== undefined) return handler(request)
    if (method === 'OPTIONS') return table.options()
    if (!STANDARD_METHODS.includes(method)) throw httpError('not_implemented')
    throw httpError('method_not_allowed', { headers: { allow: table.allow } })
  }
  return Object.assign(handle, { operations: table.operations() })
}
