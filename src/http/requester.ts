import {
  isOwnerId, MAX_NAME, NAME_RULE, namedOwner, storedOwner, type NamedOwner,
} from '../runtime/names.js'
import { checkNames } from '../runtime/option-names.js'
import { clientAddress } from './client-address.js'
import { httpError } from './errors.js'
import type { HttpRequest } from './exchange.js'
import { principalOf, principalOrNobody, type Principal } from './principal.js'

/** An owner in a tenant. The same owner in another tenant, or in none, is another one. */
export interface TenantOwner {
  /** Id of the owner. `undefined` for an anonymous client, who belongs to no tenant. */
  readonly owner: string | undefined
  /**
   * Id of the tenant, which limits and turns count in place of the owner. `undefined` for none. Both ids
   * together have at most 511 characters.
   */
  readonly tenant?: string | undefined
}

/**
 * Finds the owner of a request.
 *
 * - A function returns the owner's id, 1 to 512 characters, or `{ owner, tenant }`. If there is no owner,
 *   the request gets 401 `unauthorized`, unless anonymous clients are allowed: they create tasks
 *   without an owner, and can see only such tasks.
 * - `'principal'`: the `subject` of the principal that `authenticate` or your framework has found,
 *   in its `tenant`. A request without a principal gets 401 `unauthorized`.
 * - `'anyone'`: all tasks are without an owner. Anyone who knows the id of a task may see and
 *   cancel it.
 */
export type OwnerOption<C = unknown> =
  ((request: HttpRequest<C>) => string | TenantOwner | undefined) | 'principal' | 'anyone'

/** `owner` is that of a stored task: see `storedOwner`. */
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
      + 'with anonymous: true, owner must be a function, such as (request) => principalOf(request)?.subject')
  }
  if (option === 'anyone') return () => ANYONE
  if (option === 'principal') return (request) => byPrincipal(request, about)
  if (typeof option !== 'function') throw missing(option, about)
  return (request) => {
    const owner = givenOwner(`${where}: ${name}`, option(request), anonymous)
    if (owner !== undefined) return { kind: 'owner', owner }
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
  if (id === undefined || (isOwnerId(id) && id !== OPERATORS)) return id
  if (id === OPERATORS) throw new TypeError(`${where} must not be ${OPERATORS}, the owner of the tasks of operators`)
  checkText(where, id)
  throw new TypeError(`${where} must be a non-empty string, or undefined for an anonymous client; it is ${found(id)}`)
}

/** Returns the id if it can name a tenant. Otherwise throws a `TypeError` that says what to do. */
export function checkTenantId(where: string, id: unknown): string | undefined {
  if (id === undefined || isOwnerId(id)) return id
  checkText(where, id)
  throw new TypeError(`${where} must be a non-empty string, or undefined for no tenant; it is ${found(id)}`)
}

function checkText(where: string, id: unknown): void {
  if (typeof id !== 'string' || id === '') return
  throw new TypeError(`${where} must be ${NAME_RULE} or U+001F; it has ${id.length} characters`)
}

/**
 * Returns the stored owner for what `owner` of the application returned.
 *
 * @param anonymous - `true` if the client may be without an owner
 */
export function givenOwner(where: string, given: unknown, anonymous: boolean): string | undefined {
  // A promise has no owner.
  const isTenantOwner = typeof given === 'object' && given !== null && !('then' in given)
  return isTenantOwner ? checkTenantOwner(where, given as TenantOwner, anonymous) : checkOwnerId(where, given)
}

/**
 * Returns the stored owner of a client.
 *
 * @param anonymous - `true` if the client may be without an owner
 * @throws {TypeError} A property is missing, unknown or not valid, or a tenant has no owner.
 */
export function checkTenantOwner(where: string, given: TenantOwner, anonymous: boolean): string | undefined {
  checkNames(where, given, { owner: 0, tenant: 0 } satisfies Record<keyof TenantOwner, 0>)
  // Without the property, every client would be anonymous.
  if (!('owner' in given)) throw new TypeError(`${where}: the property owner is missing; return { owner: user.id, tenant: user.tenant }`)
  const owner = checkOwnerId(`${where}: owner`, given.owner)
  const tenant = checkTenantId(`${where}: tenant`, given.tenant)
  if (owner === undefined && tenant !== undefined && anonymous) {
    throw new TypeError(`${where}: an anonymous client belongs to no tenant; leave the tenant undefined, or give the owner`)
  }
  return owner === undefined ? undefined : checkedOwner(where, { owner, tenant })
}

/** Returns the stored owner of an owner, a tenant, or both. Throws a `TypeError` if no engine keeps both together. */
export function checkedOwner(where: string, named: NamedOwner): string | undefined {
  const stored = storedOwner(named)
  if (stored === undefined || stored.length <= MAX_NAME) return stored
  throw new TypeError(`${where}: owner and tenant together must have at most ${MAX_NAME - 1} characters; they have ${stored.length - 1}`)
}

function byPrincipal(request: HttpRequest<unknown>, { where, name }: RequesterOption): Requester {
  const principal = principalOrNobody(request, `${where}: ${name}: 'principal'`)
  if (principal === undefined) throw httpError('unauthorized')
  const owner = ownerOfPrincipal(`${where}: `, principal)
  if (owner === undefined) {
    throw new TypeError(
      `${where}: the principal has no subject; give it one, as in { subject: user.id }`
    )
  }
  return { kind: 'owner', owner }
}

/** Returns the stored owner of a principal; `undefined` if it has no subject. */
export function ownerOfPrincipal(where: string, principal: Principal): string | undefined {
  const owner = checkOwnerId(`${where}the subject of the principal`, principal.subject)
  const tenant = checkTenantId(`${where}the tenant of the principal`, principal.tenant)
  return owner === undefined ? undefined : checkedOwner(`${where}the principal`, { owner, tenant })
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
 * Names the caller that limits count a request for: its owner, else its principal, and of these the
 * tenant if there is one; else the network of the client. Credentials do not count, because anybody can
 * make them up.
 *
 * @param owner - the owner as it is stored
 */
export function countedAs(request: HttpRequest<unknown>, owner?: string): string {
  const principal = owner === undefined ? principalOf(request) : undefined
  const known = principal === undefined ? owner : ownerOfPrincipal('', principal)
  if (known !== undefined) return countedAsOwner(known)
  const address = addressOf(request)
  return address === undefined ? UNKNOWN_CALLER : `address ${address}`
}

/** @throws {TypeError} The tenant is no id. */
export function countedAsPrincipal({ subject, tenant }: Principal): string {
  const checked = checkTenantId('the tenant of the principal', tenant)
  return checked === undefined ? `owner ${subject}` : countedAsTenant(checked)
}

/** @param owner - the owner as it is stored */
export function countedAsOwner(owner: string): string {
  const { tenant } = namedOwner(owner)
  return tenant === undefined ? `owner ${owner}` : countedAsTenant(tenant)
}

export function countedAsTenant(tenant: string): string {
  return `${TENANT}${tenant}`
}

/** Returns the tenant that limits count as this caller. */
export function tenantOf(caller: string): string {
  return caller.slice(TENANT.length)
}

/** Engines index the tasks of callers that begin so: see `TaskQuery`. */
const TENANT = 'tenant '

/** Caller without an owner, a principal and a known address. */
export const UNKNOWN_CALLER = 'address unknown'
