import type { SemVer } from 'semver'
// Not `semver` itself, which loads all of its 47 files.
import coerce from 'semver/functions/coerce.js'
import compare from 'semver/functions/compare.js'
import parse from 'semver/functions/parse.js'
import { HttpError, httpError } from '../http/errors.js'
import type { HttpRequest } from '../http/exchange.js'
import type { Candidate, Selector } from './selectors.js'

export interface Chosen {
  readonly name: string
  /** The first selector that named it, in their order; `default` if none did. */
  readonly way: Selector['way'] | 'default'
  readonly mediaType: string | undefined
}

export type Best = (text: string) => string | undefined

interface Judged {
  /** Name of the served version, or else the string as sent. Equal for equal versions. */
  readonly resolved: string
  readonly chosen: Chosen | undefined
  readonly selector: Selector
  readonly text: string
}

export function choose(
  request: HttpRequest, select: readonly Selector[], best: Best, all: string,
): Chosen | undefined {
  const fixed: Judged[] = []
  const listed: { readonly candidate: Candidate; readonly selector: Selector }[] = []
  let optional = false
  for (const selector of select) {
    const asked = selector.ask(request)
    if (asked === undefined) continue
    optional ||= asked.optional
    for (const candidate of asked.candidates) {
      if (selector.isVendorType === undefined) fixed.push(judge(candidate, selector, best))
      else listed.push({ candidate, selector })
    }
  }
  // The sort is stable: equal candidates of two selectors keep the order of the header.
  listed.sort((a, b) => b.candidate.q - a.candidate.q || a.candidate.at - b.candidate.at)
  const accepted = listed.map(({ candidate, selector }) => judge(candidate, selector, best))
  const [first, ...others] = fixed
  if (first !== undefined) {
    const same = accepted.find(({ resolved }) => resolved === first.resolved)
    const differs = others.some(({ resolved }) => resolved !== first.resolved)
    if (differs || (accepted.length > 0 && same === undefined && !optional)) {
      throw httpError('version_ambiguous')
    }
    const { name, way } = requireServed(first, all)
    return { name, way, mediaType: same?.chosen?.mediaType }
  }
  const served = accepted.find(({ chosen }) => chosen !== undefined)
  // If Accept also allows other types, an unsupported version is not an error.
  if (served !== undefined || optional || accepted.length === 0) return served?.chosen
  return requireServed(accepted.find(({ text }) => isVersion(text)) ?? accepted[0] as Judged, all)
}

function judge({ text, mediaType }: Candidate, selector: Selector, best: Best): Judged {
  const name = best(text)
  return {
    resolved: name ?? `? ${text}`, text, selector,
    chosen: name === undefined ? undefined : { name, way: selector.way, mediaType },
  }
}

function requireServed({ chosen, selector, text }: Judged, all: string): Chosen {
  if (chosen !== undefined) return chosen
  if (!isVersion(text)) throw httpError('version_invalid')
  const message = `This version is not served; there are: ${all}.`
  throw new HttpError(selector.unsupported, 'version_unsupported', { message })
}

/** A version as clients may ask for it: `1`, `1.2`, `1.2.3`, or with a pre-release `2.0.0-beta.1`. */
const ASKED = /^(?:0|[1-9]\d{0,8})(?:\.(?:0|[1-9]\d{0,8})(?:\.(?:0|[1-9]\d{0,8})(?:-[0-9A-Za-z.-]{1,64})?)?)?$/

/** Returns the full version (semver.org) of a string: `1` is 1.0.0. `undefined` for other strings. */
function readVersion(text: string): SemVer | undefined {
  if (text.length > 100 || !ASKED.test(text)) return undefined
  return (text.includes('-') ? parse(text) : coerce(text)) ?? undefined
}

export function isVersion(text: string): boolean {
  return readVersion(text) !== undefined
}

export function toFull(name: string): SemVer {
  const full = readVersion(name)
  if (!full) {
    throw new TypeError(`versions: ${JSON.stringify(name)} is no version; write 1, 1.2 or 1.2.3`)
  }
  return full
}

export interface Named {
  readonly name: string
  readonly full: SemVer
}

export function sortVersions(names: readonly string[]): readonly Named[] {
  const sorted = names.map((name) => ({ name, full: toFull(name) })).sort(
    (a, b) => compare(a.full, b.full)
  )
  sorted.forEach((each, at) => {
    const before = sorted[at - 1]
    if (before && compare(before.full, each.full) === 0) {
      throw new TypeError(
        `versions: ${JSON.stringify(before.name)} and ${JSON.stringify(each.name)} are the same version`
      )
    }
  })
  return sorted
}

/**
 * Returns the newest version that a client's string allows: `1` allows every 1.x.y, `1.2` every
 * 1.2.x. A pre-release must be named in full.
 */
export function bestVersion(asked: string, served: readonly Named[]): string | undefined {
  const wanted = readVersion(asked)
  if (wanted === undefined) return undefined
  const parts = asked.includes('-') ? 3 : asked.split('.').length
  const allowed = ({ full }: Named): boolean => {
    if (parts === 3) return compare(full, wanted) === 0
    return full.prerelease.length === 0 && full.major === wanted.major
      && (parts === 1 || full.minor === wanted.minor)
  }
  return served.findLast(allowed)?.name
}
