import type { HttpRequest } from './exchange.js'

/** Authenticated sender of a request. Applications may add properties such as roles. */
export interface Principal {
  /** Permanent id, independent of the credentials. Tasks belong to it and limits count it. */
  readonly subject: string
  /**
   * Id of the tenant. The same subject in another tenant is another owner of tasks, and limits count
   * the tenant. Default: none.
   */
  readonly tenant?: string | undefined
}

/** The context that the bindings of Express, Connect, Fastify and Koa make by default. */
export interface HostContext {
  /**
   * The user that your framework has authenticated: `req.user`, `request.user`, `ctx.state.user`.
   */
  readonly user?: any
}

/**
 * Returns the principal of a request; `undefined` for an anonymous one.
 * @example
 * const subject = principalOf(request)?.subject
 */
export function principalOf<P extends Principal = Principal>(
  request: HttpRequest<unknown>,
): P | undefined {
  return (request.context as { readonly principal?: P } | null | undefined)?.principal
}

/**
 * Returns the principal; `undefined` for an anonymous request.
 * @throws {TypeError} The context has a `user` but no `principal`: such a request is not anonymous.
 */
export function principalOrNobody<P extends Principal = Principal>(
  request: HttpRequest<unknown>, where: string,
): P | undefined {
  const principal = principalOf<P>(request)
  if (principal !== undefined) return principal
  const user = (request.context as { readonly user?: unknown } | null | undefined)?.user
  if (user === undefined || user === null) return undefined
  throw new TypeError(
    `${where}: your framework has set context.user (req.user), but there is no context.principal. ` +
      'Say which subject the user is: put authenticate({ schemes: [hostUser(({ context }) => ({ subject: String(context.user.id) }))] }) ' +
      'in front, or give the binding context: (req) => ({ principal: { subject: String(req.user.id) } })',
  )
}
