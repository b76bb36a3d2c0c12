import { after, type MaybePromise } from '../runtime/maybe-promise.js'
import { httpError } from '../http/errors.js'
import type { HttpRequest, Policy, PolicyPlace } from '../http/exchange.js'
import { checkNames } from '../runtime/option-names.js'
import { principalOrNobody, type Principal } from '../http/requester.js'
import { failing } from './describe.js'

/** Options of `authorize`. */
export interface AuthorizeOptions<P extends Principal, C = unknown> {
  /**
   * Returns `true` if the principal may send this request. It decides from the head: the body is
   * not read yet.
   */
  readonly allow: (principal: P, request: HttpRequest<C>) => MaybePromise<boolean>
  /** The `reason` member of the 403, for programs, such as `needs_writer`. */
  readonly reason: string | ((principal: P, request: HttpRequest<C>) => string)
  /** The message of the 403, for people. Do not reveal anything in it. */
  readonly message?: string | ((principal: P, request: HttpRequest<C>) => string)
}

const KNOWN = {
  allow: 0, reason: 0, message: 0,
} satisfies Record<keyof AuthorizeOptions<Principal>, 0>
const PLACE: PolicyPlace = {
  name: 'authorize',
  behind: {
    requestId: 'what is refused here would have no id',
    authenticate: 'the client is not authenticated there yet, so every request would get a 401',
  },
}

/**
 * Answers 403 `forbidden` with `reason` beside `code` if `allow` returns anything but `true` (SPEC
 * 5.3), and 401 `unauthorized` for an anonymous request (SPEC 5.2). Put it behind `authenticate`,
 * or set `context.principal` in the host.
 *
 * @example
 * interface Member extends Principal { readonly role: string }
 * const allow = ({ role }: Member) => role === 'writer'
 * const writersOnly = authorize<Member>({ allow, reason: 'needs_writer' })
 * compose(authenticate({ schemes }), writersOnly, handler)
 *
 * @throws {TypeError} `allow` or `reason` is missing, or an option is unknown.
 */
export function authorize<P extends Principal, C = unknown>(
  options: AuthorizeOptions<P, C>,
): Policy<C> {
  checkNames('authorize', options, KNOWN)
  const { allow, reason, message } = options
  if (typeof allow !== 'function') {
    throw new TypeError('authorize: allow must be a function that gives true or false')
  }
  if (reason === undefined || reason === '') {
    throw new TypeError(
      'authorize: give a reason, a code that tells a program why, such as needs_writer'
    )
  }
  const policy: Policy<C> = (request, next) => {
    const principal = principalOrNobody<P>(request, 'authorize')
    if (principal === undefined) throw httpError('unauthorized')
    const go = (allowed: boolean): ReturnType<Policy<C>> => {
      // Only true will do: a check that forgot to answer must not let anybody in.
      if (allowed === true) return next(request)
      const text = typeof message === 'function' ? message(principal, request) : message
      throw httpError('forbidden', {
        members: { reason: typeof reason === 'function' ? reason(principal, request) : reason },
        ...text === undefined ? {} : { message: text },
      })
    }
    return after(allow(principal, request), go)
  }
  return Object.assign(policy, { place: PLACE, describe: failing('unauthorized', 'forbidden') })
}
