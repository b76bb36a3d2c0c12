import type { HttpRequest } from './exchange.js'

/** Who sent a request. Hosts add what they like: roles, a tenant, the claims of a token. */
export interface Principal {
  /** Names the caller for good, whatever the credentials: tasks belong to it, limits are counted by it. */
  readonly subject: string
}

/** Who sent the request, as `authenticate` or the host (`context.principal`) has found out; `undefined` for nobody known. */
export function principalOf<P extends Principal = Principal>(request: HttpRequest<unknown>): P | undefined {
  return (request.context as { readonly principal?: P } | null | undefined)?.principal
}
