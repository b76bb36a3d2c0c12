import { LRUCache } from 'lru-cache'
import { httpError } from '../http/errors.js'
import type { HttpRequest, Operation, Policy, PolicyPlace } from '../http/exchange.js'
import { readFailure } from '../http/failure.js'
import { setCaller, withContext } from '../http/request.js'
import { principalOrNobody, type Principal } from '../http/principal.js'
import { countedAsPrincipal } from '../http/requester.js'
import { withHeaders } from '../http/respond.js'
import { changed, type Fragment } from '../openapi/operation.js'
import { addFailures } from '../openapi/responses.js'
import type { MaybePromise } from '../runtime/maybe-promise.js'
import {
  duration, flag, func, readOptions, text, value, whole, type OptionTable,
} from '../runtime/options.js'
import { AFTER_ID } from './request-id.js'
import { secretDigest, type Scheme } from './schemes.js'

/** Options of `authenticate`. */
export interface AuthenticateOptions<P extends Principal> {
  /** The accepted kinds of credentials, tried in this order. */
  readonly schemes: readonly (Scheme<P> | Scheme)[]
  /** Named in the challenges (RFC 9110 section 11.5), in printable ASCII. Default `longhaul`. */
  readonly realm?: string
  /**
   * If `true`, a request without valid credentials passes as anonymous. Default: false.
   *
   * An `authorize` behind it still responds with 401.
   */
  readonly optional?: boolean
  /** Remembers verified credentials. Default: every request is verified. */
  readonly cache?: CredentialCache
}

/**
 * A cache of verified credentials. Only successes are kept, under a digest of the scheme, the
 * credentials and `key`. Concurrent requests with the same credentials are verified once.
 */
export interface CredentialCache {
  /** Maximum number of entries. The least recently used one is removed first. */
  readonly maxEntries: number
  /** Lifetime of an entry in milliseconds. Revoked credentials may be accepted until it ends. */
  readonly ttlMs: number
  /**
   * Returns all that `verify` reads of the request beside the credentials, as one string. Without
   * it, a `verify` that reads the request fails.
   */
  readonly key?: (request: HttpRequest) => string
}

const OPTIONS = {
  schemes: value('a list of one or more schemes, such as [bearer({ verify })]', areSchemes, { required: true }),
  realm: text({
    default: 'longhaul', pattern: /^[ !#-[\]-~]+$/,
    expects: 'printable ASCII without quotes and backslashes',
  }),
  optional: flag({ default: false }),
  cache: value('{ maxEntries, ttlMs, key? }'),
} satisfies OptionTable<AuthenticateOptions<Principal>>

const CACHE = {
  maxEntries: whole({ min: 1, required: true }),
  ttlMs: duration({ min: 1, required: true }),
  key: func(),
} satisfies OptionTable<CredentialCache>

const NO_PREFLIGHT = 'browsers send no credentials with a preflight, so each would get a 401'
const PLACE: PolicyPlace = { name: 'authenticate', behind: { ...AFTER_ID, cors: NO_PREFLIGHT } }
const OPTIONAL: PolicyPlace = { name: 'authenticate', behind: AFTER_ID }

/**
 * Identifies the sender of a request from its headers. Handlers behind it call
 * `principalOf(request)`. Without valid credentials the client gets 401 `unauthorized` with a
 * challenge for each scheme (RFC 9110 section 15.5.2). If `verify` throws an `HttpError`, that is the
 * response, such as a 401 with your message: `httpError('unauthorized', { message, headers })` with a
 * `WWW-Authenticate` header. Other errors of `verify` cause a 500, 502, 503 or 504. The context of your framework
 * must be a plain object or absent.
 * @example
 * const verify = tokens({ s3cret: { subject: 'ann' } })
 * compose(authenticate({ schemes: [bearer({ verify })] }), handler)
 * @throws {TypeError} There is no scheme, `realm` or `cache` is not valid, or an option is unknown.
 */
export function authenticate<P extends Principal, C = unknown>(
  options: AuthenticateOptions<P>,
): Policy<C> {
  const { schemes, realm, optional, cache } = readOptions('authenticate', options, OPTIONS)
  const verify: Verify = cache === undefined
    ? (scheme, credentials, request) => scheme.verify(credentials, request)
    : cached(cache, schemes)

  const policy: Policy<C> = async (request, next) => {
    const rejected: Scheme[] = []
    let principal: Principal | undefined
    for (const scheme of schemes) {
      const credentials = scheme.read(request)
      if (credentials === undefined) continue
      if (credentials !== '') principal = await verify(scheme, credentials, request)
      if (principal !== undefined) break
      rejected.push(scheme)
    }
    if (principal !== undefined) {
      setCaller(request, countedAsPrincipal(checked(principal)))
      return next(withContext(request, { principal }))
    }
    const challenge = (): string => (
      schemes.map((scheme) => scheme.challenge(realm, rejected.includes(scheme))).join(', ')
    )
    if (!optional) {
      throw httpError('unauthorized', { headers: { 'www-authenticate': challenge() } })
    }
    let status = 0
    const anonymous: typeof next = async (inner) => {
      try {
        const response = await next(inner)
        status = response?.status ?? 0
        return response
      } catch (error) {
        status = readFailure(error).status
        throw error
      }
    }
    return withHeaders(anonymous, withContext(request, { principal }), (headers) => {
      if (status === 401) headers['www-authenticate'] ??= challenge()
    })
  }
  return Object.assign(policy, {
    place: optional ? OPTIONAL : PLACE, describe: securedBy(schemes, optional),
  })
}

function areSchemes(list: unknown): boolean {
  return Array.isArray(list) && list.length > 0 && list.every((scheme: unknown) => {
    const { read, verify, challenge } = (scheme ?? {}) as Readonly<Record<string, unknown>>
    return [read, verify, challenge].every((method) => typeof method === 'function')
  })
}

function checked(principal: Principal): Principal {
  if (typeof principal.subject === 'string' && principal.subject !== '') return principal
  throw new TypeError('authenticate: verify must return a principal with a subject, a string that is not empty, or undefined')
}

type Verify = (
  scheme: Scheme, credentials: string, request: HttpRequest,
) => MaybePromise<Principal | undefined>

function cached(options: CredentialCache, schemes: readonly Scheme[]): Verify {
  const { maxEntries, ttlMs, key: keyOf } = readOptions('authenticate: cache', options, CACHE)
  const known = new LRUCache<string, Principal>({ max: maxEntries, ttl: ttlMs })
  const pending = new Map<string, Promise<Principal | undefined>>()
  return (scheme, credentials, request) => {
    if (!scheme.cacheable) return scheme.verify(credentials, request)
    const more: unknown = keyOf === undefined ? '' : keyOf(request)
    if (typeof more !== 'string') {
      throw new TypeError('authenticate: cache: key must return a string')
    }
    const key = secretDigest(JSON.stringify([schemes.indexOf(scheme), more, credentials]))
    const before = known.get(key) ?? pending.get(key)
    if (before !== undefined) return before
    const verified = (async () => {
      try {
        const found = await scheme.verify(credentials, keyOf === undefined ? NO_REQUEST : request)
        if (found !== undefined) known.set(key, found)
        return found
      } finally {
        pending.delete(key)
      }
    })()
    pending.set(key, verified)
    return verified
  }
}

/** Replaces the request for a `verify` if the key of the cache does not cover the request. */
const NO_REQUEST = new Proxy({} as HttpRequest, {
  get: (_, name) => {
    throw new TypeError(`authenticate: verify reads ${String(name)} of the request, but the cache remembers by the credentials; `
      + "return what verify reads: cache: { maxEntries, ttlMs, key: (request) => request.peerAddress ?? '' }")
  },
})

function securedBy(
  schemes: readonly Scheme[], optional: boolean,
): (operation: Operation) => Operation {
  const described = schemes.filter(({ openapi }) => openapi !== undefined)
  const security = described.map(({ name }) => ({ [name]: [] }))
  const securitySchemes = Object.fromEntries(
    described.map(({ name, openapi }) => [name, openapi as Fragment]),
  )
  const unauthorized = addFailures('unauthorized')
  return (operation) => {
    const { openapi } = operation
    if (optional && !('401' in (openapi['responses'] as Fragment))) {
      return changed(operation, { security: openapi['security'] ?? [] })
    }
    const failing = unauthorized(operation)
    if (described.length === 0) return failing
    const all = { ...operation.securitySchemes, ...securitySchemes }
    return { ...changed(failing, { security }), securitySchemes: all }
  }
}

/** Options of `authorize`. */
export interface AuthorizeOptions<P extends Principal, C = unknown> {
  /** Returns `true` if the principal may send this request. The body is not read yet. */
  readonly allow: (principal: P, request: HttpRequest<C>) => MaybePromise<boolean>
  /** The property `reason` of the 403, for programs, such as `needs_writer`. */
  readonly reason: string | ((principal: P, request: HttpRequest<C>) => string)
  /** The message of the 403, for people. Do not reveal anything in it. */
  readonly message?: string | ((principal: P, request: HttpRequest<C>) => string)
}

const isTextOrFunction = (given: unknown): boolean => (
  typeof given === 'function' || (typeof given === 'string' && given !== '')
)
const AUTHORIZE = {
  allow: func({ required: true }),
  reason: value(
    'a code that tells programs why, such as needs_writer, or a function that returns one',
    isTextOrFunction, { required: true },
  ),
  message: value('a string, or a function that returns one', isTextOrFunction),
} satisfies OptionTable<AuthorizeOptions<Principal>>

const AUTHORIZE_PLACE: PolicyPlace = {
  name: 'authorize',
  behind: {
    ...AFTER_ID,
    authenticate: 'the client is not authenticated there yet, so every request would get a 401',
  },
}

/**
 * Responds with 403 `forbidden` and `reason` if `allow` returns anything but `true`, and with 401
 * `unauthorized` to an anonymous request. Put it behind `authenticate`, or set `context.principal`.
 * @example
 * interface Member extends Principal { readonly role: string }
 * const allow = ({ role }: Member) => role === 'writer'
 * const writersOnly = authorize<Member>({ allow, reason: 'needs_writer' })
 * compose(authenticate({ schemes }), writersOnly, handler)
 * @throws {TypeError} `allow` or `reason` is missing, or an option is unknown.
 */
export function authorize<P extends Principal, C = unknown>(
  options: AuthorizeOptions<P, C>,
): Policy<C> {
  const { allow, reason, message } = readOptions('authorize', options, AUTHORIZE)
  const policy: Policy<C> = async (request, next) => {
    const principal = principalOrNobody<P>(request, 'authorize')
    if (principal === undefined) throw httpError('unauthorized')
    const allowed: unknown = await allow(principal, request)
    // Only true will do: a check that forgot to return must not let anybody in.
    if (allowed === true) return next(request)
    const shown = typeof message === 'function' ? message(principal, request) : message
    throw httpError('forbidden', {
      members: { reason: typeof reason === 'function' ? reason(principal, request) : reason },
      ...shown !== undefined && { message: shown },
    })
  }
  return Object.assign(policy, {
    place: AUTHORIZE_PLACE, describe: addFailures('unauthorized', 'forbidden'),
  })
}
