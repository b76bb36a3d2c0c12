import type { HttpRequest } from './exchange.js'
import { httpError } from './errors.js'
import { clientAddress } from './client-address.js'

/**
 * Authenticated sender of a request. Applications may add properties such as roles, a tenant or the
 * claims of a token.
 */
export interface Principal {
  /**
   * Permanent id of the caller, independent of the credentials. Tasks belong to it and limits are
   * counted for it.
   */
  readonly subject: string
}

/** The context that the bindings of Express, Connect, Fastify and Koa make by default. */
export interface HostContext {
  /**
   * The user that your framework has authenticated: `req.user`, `request.user` or `ctx.state.user`.
   * Its type is known to your application only.
   */
  readonly user?: any
}

/**
 * Returns the principal, for code that treats a request without one as anonymous. Rejects a user in
 * `context.user` (such as Express' `req.user`) without a principal, because its requests must not
 * count as anonymous.
 *
 * @throws {TypeError} The context has a `user` but no `principal`.
 */
export function principalOrNobody<P extends Principal = Principal>(
  request: HttpRequest<unknown>,
  where: string,
): P | undefined {
  const principal = principalOf<P>(request)
  if (principal !== undefined) return principal
  const user = (request.context as { readonly user?: unknown } | null | undefined)?.user
  if (user === undefined || user === null) return undefined
  throw new TypeError(
    `${where}: the host has set context.user (req.user), but there is no context.principal. ` +
      'Say which subject the user is: put authenticate({ schemes: [hostUser(({ context }) => ({ subject: String(context.user.id) }))] }) ' +
      'in front, or give the binding context: (req) => ({ principal: { subject: String(req.user.id) } })',
  )
}

/**
 * Returns the principal that `authenticate` or your framework stored in `context.principal`, or
 * `undefined` for an anonymous request.
 *
 * @example
 * const subject = principalOf(request)?.subject
 */
export function principalOf<P extends Principal = Principal>(
  request: HttpRequest<unknown>,
): P | undefined {
  return (request.context as { readonly principal?: P } | null | undefined)?.principal
}

/**
 * Finds the owner of a request.
 *
 * - A function: returns the owner's id, a string that is not empty, or `undefined` for an anonymous
 *   client. An anonymous client creates tasks without an owner and can see only such tasks.
 * - `'principal'`: the `subject` of the principal that `authenticate` has found, or that your
 *   framework has set as `context.principal`. A request without a principal gets 401 `unauthorized`.
 * - `'anyone'`: all tasks are without an owner. Whoever knows the id of a task may see and cancel
 *   it.
 */
export type OwnerOption<C = unknown> =
  ((request: HttpRequest<C>) => string | undefined) | 'principal' | 'anyone'

export type Requester =
  | { readonly kind: 'owner', readonly owner: string }
  /** `anonymous`: the function returned `undefined`. `anyone`: the endpoint knows no owners. */
  | { readonly kind: 'anonymous' | 'anyone', readonly owner: undefined }

const ANONYMOUS: Requester = { kind: 'anonymous', owner: undefined }
const ANYONE: Requester = { kind: 'anyone', owner: undefined }

export interface RequesterOption {
  /** Name of the public function. */
  readonly where: string
  readonly name: 'owner' | 'caller'
  readonly question: string
  readonly anyone: string
}

/**
 * Makes the function that finds the requester of a request.
 *
 * @throws {TypeError} `option` is missing or is none of the three choices.
 */
export function findRequester<C>(
  option: OwnerOption<C>, about: RequesterOption,
): (request: HttpRequest<C>) => Requester {
  const { where, name } = about
  if (option === 'anyone') return () => ANYONE
  if (option === 'principal') return (request) => byPrincipal(request, about)
  if (typeof option !== 'function') throw missing(option, about)
  return (request) => {
    const id = checkOwnerId(`${where}: ${name}`, option(request))
    return id === undefined ? ANONYMOUS : { kind: 'owner', owner: id }
  }
}

/**
 * Returns the id if it can name an owner or a caller. Ids are compared as text, so a number, an
 * object or a promise would merge owners or match none.
 *
 * @throws {TypeError} the id is neither `undefined` nor a text that is not empty.
 */
export function checkOwnerId(where: string, id: unknown): string | undefined {
  if (id === undefined || (typeof id === 'string' && id !== '')) return id
  throw new TypeError(`${where} must be a text that is not empty, or undefined for an anonymous client; it is ${found(id)}`)
}

function byPrincipal(request: HttpRequest<unknown>, { where, name }: RequesterOption): Requester {
  const principal = principalOrNobody(request, `${where}: ${name}: 'principal'`)
  if (principal === undefined) throw httpError('unauthorized')
  const owner = checkOwnerId(`${where}: the subject of the principal`, principal.subject)
  if (owner === undefined) {
    throw new TypeError(
      `${where}: the principal has no subject; give it one, as in { subject: user.id }`
    )
  }
  return { kind: 'owner', owner }
}

function missing(option: unknown, { where, name, question, anyone }: RequesterOption): TypeError {
  const problem = option === undefined
    ? `the option ${name} is missing`
    : `the option ${name} is none of the three choices`
  return new TypeError(`${where}: ${problem}. ${question} ` +
    `A function returns the id of the ${name}: ${name}: ({ context }) => context.user?.id. ` +
    `${name}: 'principal' takes the subject that authenticate or the host has found, and refuses requests without one. ` +
    `${name}: 'anyone' ${anyone}`)
}

function found(id: unknown): string {
  if (id === '') return 'empty'
  if (typeof id === 'number' || typeof id === 'bigint') return `a ${typeof id}: write String(id)`
  if (id === null) return 'null: write undefined, as in user?.id ?? undefined'
  if (typeof (id as { then?: unknown }).then === 'function') {
    return 'a promise: find the owner before the handler runs, in middleware or in authenticate'
  }
  return `of the type ${typeof id}`
}

const addressOf = clientAddress()

/**
 * Names the caller that limits count a request for: its owner, else the subject of its principal,
 * else the network of the client. Credentials do not count, because anybody can make them up. Behind
 * a proxy, all anonymous clients count as one.
 *
 * @param owner - as an `owner` or `caller` option found it
 */
export function countedAs(request: HttpRequest<unknown>, owner?: string): string {
  const known = owner ?? principalOf(request)?.subject
  return known === undefined ? countedWithoutOwner(addressOf(request)) : countedAsOwner(known)
}

/** Returns the name of an owner for limits. No name of an anonymous client equals it. */
export function countedAsOwner(owner: string): string {
  return `owner ${owner}`
}

export function countedWithoutOwner(address: string | undefined): string {
  return `address ${address ?? 'unknown'}`
}

/** Context property that `cors` sets when it allows the origin of a request by name. */
export const KNOWN_ORIGIN: unique symbol = Symbol('longhaul.knownOrigin')

export function isKnownOrigin(request: HttpRequest<unknown>): boolean {
  return (
    (request.context as { readonly [KNOWN_ORIGIN]?: boolean } | null | undefined)?.[
      KNOWN_ORIGIN
    ] === true
  )
}

/**
 * Returns true if a page of another site made a browser send this request, and `cors` does not
 * allow its origin by name.
 *
 * Reads `Sec-Fetch-Site` (Fetch Metadata). Without it (older browsers, and `http` beyond the local
 * machine), `Origin` must name the host of `Host`. Without both, no browser sent the request.
 *
 * @param sameSite - treatment of other origins of the same site
 */
export function isCrossSite(
  request: HttpRequest<unknown>, sameSite: 'allow' | 'refuse' = 'allow',
): boolean {
  const { origin, 'sec-fetch-site': site } = request.headers
  if (site === 'same-origin' || site === 'none') return false
  if (site === 'same-site' && sameSite === 'allow') return false
  if (site === undefined && (origin === undefined || isOwn(origin, request))) return false
  return !isKnownOrigin(request)
}

function isOwn(origin: string | string[], { headers }: HttpRequest<unknown>): boolean {
  const host = headers['host'] ?? headers[':authority']
  if (typeof origin !== 'string' || typeof host !== 'string') return false
  try {
    const url = new URL(origin)
    return url.host !== '' && url.host === new URL(`${url.protocol}//${host}`).host
  } catch {
    // `null`, or another string that is no origin.
    return false
  }
}
