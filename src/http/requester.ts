import { isName, NAME_RULE } from '../runtime/names.js'
import { clientAddress } from './client-address.js'
import { httpError } from './errors.js'
import type { HttpRequest } from './exchange.js'
import { principalOf, principalOrNobody } from './principal.js'

/**
 * Finds the owner of a request.
 *
 * - A function returns the owner's id, 1 to 512 characters. If it returns `undefined`, the
 *   request gets 401 `unauthorized`, unless anonymous clients are allowed: they create tasks
 *   without an owner, and can see only such tasks.
 * - `'principal'`: the `subject` of the principal that `authenticate` or your framework has found.
 *   A request without a principal gets 401 `unauthorized`.
 * - `'anyone'`: all tasks are without an owner. Anyone who knows the id of a task may see and
 *   cancel it.
 */
export type OwnerOption<C = unknown> =
  ((request: HttpRequest<C>) => string | undefined) | 'principal' | 'anyone'

export type Requester =
  | { readonly kind: 'owner', readonly owner: string }
  /** `anonymous`: the function returned `undefined`, as it may. `anyone`: the endpoint knows no owners. */
  | { readonly kind: 'anonymous' | 'anyone', readonly owner: undefined }

const ANONYMOUS: Requester = { kind: 'anonymous', owner: undefined }
const ANYONE: Requester = { kind: 'anyone', owner: undefined }

export interface RequesterOption {
  readonly where: string
  readonly name: 'owner' | 'caller'
  readonly question: string
  readonly anyone: string
  readonly anonymous: boolean
}

/**
 * @throws {TypeError} `option` is missing or is none of the three choices, or anonymous clients are
 * allowed, which `'principal'` rejects.
 */
export function findRequester<C>(
  option: OwnerOption<C>, about: RequesterOption,
): (request: HttpRequest<C>) => Requester {
  const { where, name, anonymous } = about
  if (anonymous && name === 'owner' && option === 'principal') {
    throw new TypeError(`${where}: owner: 'principal' rejects anonymous clients; `
      + 'for anonymous: true let owner be a function, such as (request) => principalOf(request)?.subject')
  }
  if (option === 'anyone') return () => ANYONE
  if (option === 'principal') return (request) => byPrincipal(request, about)
  if (typeof option !== 'function') throw missing(option, about)
  return (request) => {
    const id = checkOwnerId(`${where}: ${name}`, option(request))
    if (id !== undefined) return { kind: 'owner', owner: id }
    if (!anonymous) throw httpError('unauthorized')
    return ANONYMOUS
  }
}

/** Owner of the tasks and Idempotency-Keys of operators. No client has this id. */
export const OPERATORS = 'longhaul:operators'

/**
 * Returns the id if it can name an owner or a caller. Otherwise throws a `TypeError`: a number, an
 * object or a promise would merge owners or match none, and no engine keeps a string above 512
 * characters, with U+0000, or with half of a surrogate pair.
 */
export function checkOwnerId(where: string, id: unknown): string | undefined {
  if (id === undefined || (isName(id) && id !== OPERATORS)) return id
  if (id === OPERATORS) throw new TypeError(`${where} must not be ${OPERATORS}, the owner of the tasks of operators`)
  if (typeof id === 'string' && id !== '') {
    throw new TypeError(`${where} must be ${NAME_RULE}; it has ${id.length} characters`)
  }
  throw new TypeError(`${where} must be a non-empty string, or undefined for an anonymous client; it is ${found(id)}`)
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

const addressOf = clientAddress()

/**
 * Names the caller that limits count a request for: its owner, else the subject of its principal,
 * else the network of the client. Credentials do not count, because anybody can make them up.
 */
export function countedAs(request: HttpRequest<unknown>, owner?: string): string {
  const known = owner ?? checkOwnerId('the subject of the principal', principalOf(request)?.subject)
  return known === undefined ? countedWithoutOwner(addressOf(request)) : countedAsOwner(known)
}

export function countedAsOwner(owner: string): string {
  return `owner ${owner}`
}

export function countedWithoutOwner(address: string | undefined): string {
  return `address ${address ?? 'unknown'}`
}
