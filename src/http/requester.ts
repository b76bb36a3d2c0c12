import ipaddr from 'ipaddr.js'
import { Memo } from '../runtime/collections.js'
import { readOptions, value, whole, type OptionTable } from '../runtime/options.js'
import { httpError } from './errors.js'
import type { HttpRequest } from './exchange.js'
import { fieldText } from './fields/reader.js'

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
    `${where}: your framework has set context.user (req.user), but there is no context.principal. ` +
      'Say which subject the user is: put authenticate({ schemes: [hostUser(({ context }) => ({ subject: String(context.user.id) }))] }) ' +
      'in front, or give the binding context: (req) => ({ principal: { subject: String(req.user.id) } })',
  )
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
    `${name}: 'principal' takes the subject that authenticate or your framework has found, and rejects requests without one. ` +
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

type Range = [ipaddr.IPv4 | ipaddr.IPv6, number]

/** Options of `clientAddress`. */
export interface ClientAddressOptions {
  /**
   * Addresses and CIDR ranges of your own proxies, such as `['127.0.0.1', '10.0.0.0/8']`.
   * `X-Forwarded-For` is read only from these, from right to left, up to the first address that is
   * not a trusted proxy. Default: none, so the header is not read.
   */
  readonly trustedProxies?: readonly string[]
  /**
   * Length of the IPv6 prefix that identifies a client, in bits. A customer usually has at least a
   * /64. Default 64.
   */
  readonly ipv6Prefix?: number
}

const OPTIONS = {
  trustedProxies: value<never>('an array of addresses and ranges', Array.isArray),
  ipv6Prefix: whole({ min: 1, max: 128, default: 64 }),
} satisfies OptionTable<ClientAddressOptions>
/** Maximum number of proxies in a row that are trusted. */
const HOPS = 16

/**
 * Returns a function that finds the network address of a request's client: an IPv4 address, or an
 * IPv6 prefix such as `2001:db8::/64`. An IPv4-mapped address (`::ffff:192.0.2.1`) counts as IPv4.
 * Returns `undefined` if the address of the peer is not known. *
 * @throws {TypeError} An option is unknown or out of range.
 */
export function clientAddress(
  options: ClientAddressOptions = {},
): (request: HttpRequest) => string | undefined {
  const { trustedProxies = [], ipv6Prefix } = readOptions('clientAddress', options, OPTIONS)
  const trusted = trustedProxies.map(toRange)
  const isTrusted = (address: ipaddr.IPv4 | ipaddr.IPv6): boolean =>
    trusted.some(([range, bits]) => range.kind() === address.kind() && address.match(range, bits))
  const networks = new Memo((text: string) => ({ network: toNetwork(text, ipv6Prefix) }))
  return (request) => {
    const { peerAddress } = request
    if (peerAddress === undefined) return undefined
    const forwarded = trusted.length === 0 ? undefined : request.headers['x-forwarded-for']
    return networks.get(
      forwarded === undefined
        ? peerAddress
        : behindProxies(peerAddress, fieldText(forwarded), isTrusted),
    ).network
  }
}

/**
 * Returns the last address that a trusted proxy reported. Stops at text that is not an address,
 * because its writer cannot be trusted.
 */
function behindProxies(
  peer: string,
  forwarded: string,
  isTrusted: (address: ipaddr.IPv4 | ipaddr.IPv6) => boolean,
): string {
  let known = peer
  let rest = forwarded
  for (let hop = 0; hop < HOPS; hop++) {
    const address = parse(known)
    if (address === undefined || !isTrusted(address) || rest === '') return known
    const comma = rest.lastIndexOf(',')
    const next = withoutPort(rest.slice(comma + 1).trim())
    rest = comma === -1 ? '' : rest.slice(0, comma)
    if (parse(next) === undefined) return known
    known = next
  }
  return known
}

function withoutPort(text: string): string {
  if (text.startsWith('[')) return text.slice(1, Math.max(text.indexOf(']'), 1))
  const colon = text.indexOf(':')
  return colon !== -1 && colon === text.lastIndexOf(':') ? text.slice(0, colon) : text
}

function parse(text: string): ipaddr.IPv4 | ipaddr.IPv6 | undefined {
  if (text.length > 64
    || !(ipaddr.IPv4.isValidFourPartDecimal(text) || ipaddr.IPv6.isValid(text))) {
    return undefined
  }
  return ipaddr.process(text)
}

function toNetwork(text: string, bits: number): string {
  const address = parse(text)
  if (address === undefined) return text
  if (address.kind() === 'ipv4') return address.toString()
  const bytes = address
    .toByteArray()
    .map((byte, at) => byte & (0xff00 >> Math.min(8, Math.max(0, bits - at * 8))))
  return `${new ipaddr.IPv6(bytes).toString()}/${bits}`
}

function toRange(text: string): Range {
  try {
    if (text.includes('/')) return ipaddr.parseCIDR(text)
    const address = ipaddr.process(text)
    return [address, address.kind() === 'ipv4' ? 32 : 128]
  } catch {
    throw new TypeError(
      `trustedProxies: ${JSON.stringify(
        text,
      )} is neither an address nor a range such as 10.0.0.0/8`,
    )
  }
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
