import type { HttpRequest } from './exchange.js'

/** Who sent a request. Hosts add what they like: roles, a tenant, the claims of a token. */
export interface Principal {
  /**
   * Names the caller for good, whatever the credentials: tasks belong to it, limits are counted by
   * it.
   */
  readonly subject: string
}

/** The context that the bindings of Express, Connect, Fastify and Koa make by default. */
export interface HostContext {
  /**
   * What authentication of the host has found: `req.user`, `request.user` or `ctx.state.user`. Its
   * type is known to the host only.
   */
  readonly user?: any
}

/**
 * Returns the principal, for code that treats a request without one as anonymous. A user that the
 * host has put into `context.user` (Express' `req.user`, say) is no principal, and its requests
 * must not pass as anonymous.
 *
 * @throws {TypeError} the context has a `user` but no `principal`.
 */
export function principalOrNobody<P extends Principal = Principal>(request: HttpRequest<unknown>, where: string): P | undefined {
  const principal = principalOf<P>(request)
  if (principal !== undefined) return principal
  const user = (request.context as { readonly user?: unknown } | null | undefined)?.user
  if (user === undefined || user === null) return undefined
  throw new TypeError(`${where}: the host has set context.user (req.user), but there is no context.principal. ` +
    'Say which subject the user is: put authenticate({ schemes: [hostUser(({ context }) => ({ subject: String(context.user.id) }))] }) ' +
    'in front, or give the binding context: (req) => ({ principal: { subject: String(req.user.id) } })')
}

/**
 * Who sent the request, as `authenticate` or the host (`context.principal`) has found out;
 * `undefined` for nobody known.
 */
export function principalOf<P extends Principal = Principal>(request: HttpRequest<unknown>): P | undefined {
  return (request.context as { readonly principal?: P } | null | undefined)?.principal
}
