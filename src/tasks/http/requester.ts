import { clientAddress } from '../../http/client-address.js'
import { httpError } from '../../http/errors.js'
import type { HttpRequest } from '../../http/exchange.js'
import { principalOrNobody } from '../../http/principal.js'
import { checkOwnerId } from '../record/owner.js'
import { countedAsOwner, countedWithoutOwner } from '../record/owner.js'

/**
 * Tells `taskEndpoints` the owner of a request.
 *
 * - A function: returns the owner's id, a text that is not empty, or `undefined` for an anonymous
 *   client. An anonymous client creates tasks without an owner and can see only such tasks.
 * - `'principal'`: the `subject` of the principal that `authenticate` or the host
 *   (`context.principal`) has found. A request without a principal is answered with 401
 *   `unauthorized`.
 * - `'anyone'`: all tasks are without an owner. Whoever knows the id of a task may see and cancel
 *   it.
 */
export type OwnerOption<C = unknown> =
  ((request: HttpRequest<C>) => string | undefined) | 'principal' | 'anyone'

/** The party behind a request, as the `owner` option has found it. */
export type Requester =
  | { readonly kind: 'owner', readonly owner: string }
  /**
   * `anonymous`: the owner function returned `undefined`. `anyone`: the endpoints know no owners.
   */
  | { readonly kind: 'anonymous' | 'anyone', readonly owner: undefined }

const ANONYMOUS: Requester = { kind: 'anonymous', owner: undefined }
const ANYONE: Requester = { kind: 'anyone', owner: undefined }
const addressOf = clientAddress()

/**
 * Makes the function that finds the requester of a request.
 *
 * @param caller - name of the public function, for error messages
 * @param things - what belongs to the owner, for error messages
 * @throws {TypeError} `option` is missing or is none of the three choices.
 */
export function findRequester<C>(
  option: OwnerOption<C>, caller = 'taskEndpoints', things = 'task',
): (request: HttpRequest<C>) => Requester {
  if (option === 'anyone') return () => ANYONE
  if (option === 'principal') return (request) => byPrincipal(request, caller)
  if (typeof option !== 'function') throw missing(option, caller, things)
  return (request) => {
    const id = checkOwnerId(`${caller}: owner`, option(request))
    return id === undefined ? ANONYMOUS : { kind: 'owner', owner: id }
  }
}

/**
 * Names the party that limits for each owner are counted for: the owner, or the network of a client
 * without an owner. Behind a proxy, all clients without an owner count as one.
 */
export function countedAs({ owner }: Requester, request: HttpRequest<unknown>): string {
  return owner === undefined ? countedWithoutOwner(addressOf(request)) : countedAsOwner(owner)
}

function byPrincipal(request: HttpRequest<unknown>, caller: string): Requester {
  const principal = principalOrNobody(request, `${caller}: owner: 'principal'`)
  if (principal === undefined) throw httpError('unauthorized')
  const owner = checkOwnerId(`${caller}: the subject of the principal`, principal.subject)
  if (owner === undefined) {
    throw new TypeError(
      `${caller}: the principal has no subject; give it one, as in { subject: user.id }`
    )
  }
  return { kind: 'owner', owner }
}

function missing(option: unknown, caller: string, things: string): TypeError {
  const found = option === undefined
    ? 'the option owner is missing'
    : 'the option owner is none of the three choices'
  return new TypeError(`${caller}: ${found}. Say to whom ${things}s belong. ` +
    'A function returns the id of the owner: owner: ({ context }) => context.user?.id. ' +
    "owner: 'principal' takes the subject that authenticate or the host has found, and refuses requests without one. " +
    `owner: 'anyone' lets everybody who knows the id of ${an(things)} see and cancel it.`)
}

function an(thing: string): string {
  return thing.startsWith('u') ? `an ${thing}` : `a ${thing}`
}
