import { HttpError, httpError } from '../http/errors.js'
import type { HttpRequest } from '../http/exchange.js'
import type { Candidate, Selector } from './selectors.js'
import { isVersion } from './version.js'

/** A version that a request has chosen. */
export interface Chosen {
  /** As its owner wrote it. */
  readonly name: string
  /** The first way, in the order of the selectors, that named it; `default` when none did. */
  readonly way: Selector['way'] | 'default'
  /** The media type of the answer, where the client named a vendor's. */
  readonly mediaType: string | undefined
}

/** The newest version that a text allows. */
export type Best = (text: string) => string | undefined

interface Verdict {
  /** The same for all that means the same. */
  readonly identity: string
  readonly chosen: Chosen | undefined
  readonly selector: Selector
  readonly text: string
}

/**
 * The version that a request names, `undefined` when it names none. Path and query fix one; Accept,
 * in whichever of its two forms, is one negotiation: the best by `q`, then by order, of those that
 * are served.
 * @throws {HttpError} 400 `version_ambiguous` where ways disagree, 400 `version_invalid`, and
 * `version_unsupported`
 */
export function choose(
  request: HttpRequest, select: readonly Selector[], best: Best, all: string,
): Chosen | undefined {
  const verdicts: Verdict[] = []
  const wanted: { readonly candidate: Candidate; readonly selector: Selector }[] = []
  let optional = false
  for (const selector of select) {
    const asked = selector.ask(request)
    if (asked === undefined) continue
    optional ||= asked.optional
    for (const candidate of asked.candidates) {
      if (selector.vary === undefined) verdicts.push(judge(candidate, selector, best))
      else wanted.push({ candidate, selector })
    }
  }
  if (verdicts.length + wanted.length === 0) return undefined
  const [first, ...others] = verdicts
  if (others.some(({ identity }) => identity !== first?.identity)) {
    throw httpError('version_ambiguous')
  }
  if (wanted.length === 0) return first && insist(first, all)

  // Stable: equals of two selectors stay in the order of the field.
  wanted.sort((a, b) => b.candidate.q - a.candidate.q || a.candidate.at - b.candidate.at)
  const negotiated = wanted.map(({ candidate, selector }) => judge(candidate, selector, best))
  if (first !== undefined) {
    const same = negotiated.find(({ identity }) => identity === first.identity)
    if (same === undefined && !optional) throw httpError('version_ambiguous')
    const { name, way } = insist(first, all)
    return { name, way, mediaType: same?.chosen?.mediaType }
  }
  const served = negotiated.find(({ chosen }) => chosen !== undefined)
  if (served !== undefined) return served.chosen
  // Of an Accept that takes other types too, what is not served is no more than not liked best.
  return optional
    ? undefined
    : insist(negotiated.find(({ text }) => isVersion(text)) ?? negotiated[0] as Verdict, all)
}

function judge({ text, mediaType }: Candidate, selector: Selector, best: Best): Verdict {
  const name = best(text)
  return {
    identity: name === undefined ? `? ${text}` : name, text, selector,
    chosen: name === undefined ? undefined : { name, way: selector.way, mediaType },
  }
}

function insist({ chosen, selector, text }: Verdict, all: string): Chosen {
  if (chosen !== undefined) return chosen
  if (!isVersion(text)) throw httpError('version_invalid')
  throw new HttpError(
    selector.unsupported,
    'version_unsupported',
    { message: `This version is not served; there are: ${all}.` },
  )
}
