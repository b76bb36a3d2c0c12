import { LRUCache } from 'lru-cache'
import { after, isPending, type MaybePromise } from '../runtime/maybe-promise.js'
import { withHeaders } from '../http/respond.js'
import { withContext } from '../http/request.js'
import { httpError } from '../http/errors.js'
import type { HttpRequest, Policy, PolicyPlace } from '../http/exchange.js'
import { readFailure } from '../http/failure.js'
import { checkNames } from '../runtime/option-names.js'
import type { Principal } from '../http/requester.js'
import { securedBy } from './describe.js'
import type { Scheme } from './schemes.js'
import { secretDigest } from './secret.js'

/** Options of `authenticate`. */
export interface AuthenticateOptions<P extends Principal> {
  /** The accepted kinds of credentials, tried in this order. */
  readonly schemes: readonly Scheme<P>[]
  /**
   * Named in the challenges (RFC 9110 section 11.5). Printable ASCII without `"` and `\`. Default
   * `longhaul`.
   */
  readonly realm?: string
  /**
   * If `true`, a request without valid credentials passes as anonymous, for handlers that are
   * partly public. An `authorize` behind it still answers 401.
   * @default false
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
   * Returns all that `verify` reads of the request beside the credentials, such as the client's
   * address, as one text. Without it, `verify` gets the credentials only: a `verify` that declares
   * the parameter `request` is refused when the policy is created.
   */
  readonly key?: (request: HttpRequest) => string
}

const KNOWN = {
  schemes: 0, realm: 0, optional: 0, cache: 0,
} satisfies Record<keyof AuthenticateOptions<Principal>, 0>
const CACHE = { maxEntries: 0, ttlMs: 0, key: 0 } satisfies Record<keyof CredentialCache, 0>
const BEHIND = { requestId: 'what is refused here would have no id' }
const PLACE: PolicyPlace = { name: 'authenticate', behind: { ...BEHIND, cors: 'browsers send no credentials with a preflight, so each would get a 401' } }
const OPTIONAL: PolicyPlace = { name: 'authenticate', behind: BEHIND }

/**
 * Identifies the sender of a request from its head, before the body is read. Handlers behind it
 * call `principalOf(request)`. Without valid credentials the answer is 401 `unauthorized` with a
 * challenge for each scheme (RFC 9110 section 15.5.2). A `verify` that throws causes a 503 or 500,
 * never a 401. The host's context must be a plain object or absent; it is copied with `principal`
 * added.
 *
 * @example
 * const verify = tokens({ s3cret: { subject: 'ann' } })
 * compose(authenticate({ schemes: [bearer({ verify })] }), handler)
 *
 * @throws {TypeError} There is no scheme, `realm` or `cache` is not valid, or an option is unknown.
 */
export function authenticate<P extends Principal, C = unknown>(
  options: AuthenticateOptions<P>,
): Policy<C> {
  if (isScheme(options)) {
    throw new TypeError(
      'authenticate: pass the scheme in a list: authenticate({ schemes: [bearer({ verify })] })'
    )
  }
  checkNames('authenticate', options, KNOWN)
  const { schemes, realm = 'longhaul', optional = false, cache } = options
  if (!(schemes?.length > 0)) {
    throw new TypeError(
      'authenticate: schemes must be a list with at least one scheme, such as [bearer({ verify })]'
    )
  }
  if (!schemes.every(isScheme)) {
    throw new TypeError('authenticate: schemes are what bearer, basic, apiKey and hostUser make, such as bearer({ verify })')
  }
  if (!/^[ !#-[\]-~]+$/.test(realm)) {
    throw new TypeError(
      'authenticate: realm must be printable ASCII without quotes and backslashes'
    )
  }
  const remember = cache === undefined ? undefined : remembering(cache, schemes)

  const verify = (scheme: Scheme<P>, credentials: string, request: HttpRequest<C>): MaybePromise<P | undefined> =>
    remember === undefined || !scheme.cacheable
      ? scheme.verify(credentials, request)
      : remember(scheme, credentials, request)

  const identify = (request: HttpRequest<C>, refused: Scheme<P>[], from: number): MaybePromise<P | undefined> => {
    for (let at = from; at < schemes.length; at++) {
      const scheme = schemes[at] as Scheme<P>
      const credentials = scheme.read(request)
      if (credentials === undefined) continue
      const found = credentials === '' ? undefined : verify(scheme, credentials, request)
      if (isPending(found)) {
        return found.then((late) => {
          if (late !== undefined) return late
          refused.push(scheme)
          return identify(request, refused, at + 1)
        })
      }
      if (found !== undefined) return found
      refused.push(scheme)
    }
    return undefined
  }

  const policy: Policy<C> = (request, next) => {
    const refused: Scheme<P>[] = []
    const go = (principal: P | undefined): ReturnType<Policy<C>> => {
      if (principal !== undefined) {
        return next(withContext(request, { principal: checked(principal) }))
      }
      const challenge = (): string =>
        schemes.map((scheme) => scheme.challenge(realm, refused.includes(scheme))).join(', ')
      if (!optional) {
        throw httpError('unauthorized', { headers: { 'www-authenticate': challenge() } })
      }
      return challenged(withContext(request, { principal }), next, challenge)
    }
    return after(identify(request, refused, 0), go)
  }
  return Object.assign(policy, {
    place: optional ? OPTIONAL : PLACE, describe: securedBy(schemes as readonly Scheme[], optional),
  })
}

function isScheme(each: unknown): boolean {
  const { read, verify, challenge } = (each ?? {}) as Readonly<Record<string, unknown>>
  return [read, verify, challenge].every((member) => typeof member === 'function')
}

/** Adds challenges to a 401 from a handler behind. */
function challenged<C>(
  request: HttpRequest<C>, next: Parameters<Policy<C>>[1], challenge: () => string,
): ReturnType<Policy<C>> {
  let status = 0
  const watched: typeof next = (inner) => {
    const failed = (error: unknown): never => {
      status = readFailure(error).status
      throw error
    }
    try {
      const answer = next(inner)
      if (isPending(answer)) {
        return answer.then((late) => { status = late?.status ?? 0; return late }, failed)
      }
      status = answer?.status ?? 0
      return answer
    } catch (error) {
      return failed(error)
    }
  }
  return withHeaders(watched, request, (headers) => {
    if (status === 401) headers['www-authenticate'] ??= challenge()
  })
}

function checked<P extends Principal>(principal: P): P {
  if (typeof principal.subject === 'string' && principal.subject !== '') return principal
  throw new TypeError('authenticate: verify must give a principal with a subject, a text that is not empty, or undefined')
}

type Remember<P extends Principal> = (
  scheme: Scheme<P>, credentials: string, request: HttpRequest,
) => MaybePromise<P | undefined>

function remembering<P extends Principal>(
  cache: CredentialCache, schemes: readonly Scheme<P>[],
): Remember<P> {
  checkNames('authenticate: cache', cache, CACHE)
  const { maxEntries, ttlMs, key: keyOf } = cache
  const isCount = Number.isSafeInteger(maxEntries) && maxEntries > 0
  if (!isCount || !Number.isFinite(ttlMs) || ttlMs <= 0) {
    throw new TypeError('authenticate: cache needs maxEntries and ttlMs, both above 0')
  }
  if (keyOf === undefined) {
    const asks = schemes.find(
      ({ cacheable, verify, asksRequest = verify.length > 1 }) => cacheable && asksRequest
    )
    if (asks) {
      throw new TypeError(`authenticate: verify of ${asks.name} takes the request, but the cache remembers by the credentials; ${NAME_IT}`)
    }
  } else if (typeof keyOf !== 'function') {
    throw new TypeError(
      'authenticate: cache: key must be a function of the request that returns a text'
    )
  }
  const known = new LRUCache<string, P>({ max: maxEntries, ttl: ttlMs })
  const asked = new Map<string, Promise<P | undefined>>()
  return (scheme, credentials, request) => {
    const key = secretDigest(
      JSON.stringify([schemes.indexOf(scheme), more(keyOf, request), credentials])
    )
    const before = known.get(key) ?? asked.get(key)
    if (before !== undefined) return before
    const keep = (found: P | undefined): P | undefined => {
      if (found !== undefined) known.set(key, found)
      return found
    }
    const found = scheme.verify(credentials, keyOf === undefined ? NO_REQUEST : request)
    if (!isPending(found)) return keep(found)
    const pending = found.then(keep).finally(() => { asked.delete(key) })
    asked.set(key, pending)
    return pending
  }
}

const NAME_IT = 'name what verify reads of the request: cache: { maxEntries, ttlMs, key: (request) => request.peerAddress ?? \'\' }'

/** Replaces the request for a `verify` whose cache key does not cover the request. */
const NO_REQUEST = new Proxy({} as HttpRequest, {
  get: (_, name) => {
    throw new TypeError(`authenticate: verify reads ${String(name)} of the request, but the cache remembers by the credentials; ${NAME_IT}`)
  },
})

function more(keyOf: CredentialCache['key'], request: HttpRequest): string {
  const text: unknown = keyOf === undefined ? '' : keyOf(request)
  if (typeof text !== 'string') throw new TypeError('authenticate: cache: key must return a text')
  return text
}
