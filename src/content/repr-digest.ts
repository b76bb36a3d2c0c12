import type { RequestHeaders } from '../http/exchange.js'
import {
  digestField, isDigest, parseWantedDigests, type DigestAlgorithm, type Digests, type WantedDigests,
} from '../http/fields/digests.js'
import type { MaybePromise } from '../runtime/maybe-promise.js'
import { notADigest, type ContentSource } from './source.js'

/**
 * Returns the value of `Repr-Digest` for the answer to a request (RFC 9530 section 3), `undefined`
 * if it has none. Known digests cost nothing, so they are sent to every client that does not refuse
 * them. A digest is computed only for a client that wants it, and only if none that it wants is
 * known.
 */
export function reprDigestOf(
  source: ContentSource, headers: RequestHeaders,
): MaybePromise<string | undefined> {
  const { digests } = source
  const field = headers['want-repr-digest']
  if (digests === undefined && (field === undefined || !source.digest)) return undefined
  const preferences = parseWantedDigests(field)
  const known = digests && acceptable(digests, preferences)
  if (known !== undefined) return known
  const [algorithm] = preferences.wanted
  if (algorithm === undefined) return undefined
  const found = source.digest?.(algorithm)
  return found instanceof Promise
    ? found.then((late) => computed(algorithm, late))
    : computed(algorithm, found)
}

/** Returns the digest that the client wants most, or all known ones that it does not refuse. */
function acceptable(digests: Digests, { wanted, refused }: WantedDigests): string | undefined {
  const best = wanted.find((name) => digests[name] !== undefined)
  if (best !== undefined) return digestField({ [best]: digests[best] })
  const names = Object.keys(digests) as DigestAlgorithm[]
  const rest = names.filter((name) => !refused.includes(name))
  return digestField(Object.fromEntries(rest.map((name) => [name, digests[name]]))) || undefined
}

function computed(algorithm: DigestAlgorithm, digest: string | undefined): string | undefined {
  if (digest === undefined) return undefined
  if (!isDigest(algorithm, digest)) throw notADigest(algorithm)
  return digestField({ [algorithm]: digest })
}
