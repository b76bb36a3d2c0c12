import { coerce, compare, Range, SemVer } from 'semver'

/** A version as clients may ask for it: `1`, `1.2`, `1.2.3`, or with a pre-release `2.0.0-beta.1`. */
const ASKED = /^(0|[1-9]\d{0,8})(?:\.(0|[1-9]\d{0,8})(?:\.(0|[1-9]\d{0,8})(-[0-9A-Za-z.-]{1,64})?)?)?$/

/** Whether a text names a version at all. */
export function isVersion(text: string): boolean {
  return text.length <= 100 && ASKED.test(text)
}

/** The full version (semver.org) behind a short name: `1` is 1.0.0. Throws a `TypeError` for what is none. */
export function toFull(name: string): SemVer {
  const full = isVersion(name) ? (name.includes('-') ? new SemVer(name) : coerce(name)) : null
  if (!full) throw new TypeError(`${JSON.stringify(name)} is no version; use 1, 1.2 or 1.2.3`)
  return full
}

/** One version that is served. */
export interface Named {
  /** As its owner wrote it. */
  readonly name: string
  readonly full: SemVer
}

/** Oldest first. Throws a `TypeError` when two names mean the same version. */
export function sortVersions(names: readonly string[]): readonly Named[] {
  const sorted = names.map((name) => ({ name, full: toFull(name) })).sort((a, b) => compare(a.full, b.full))
  sorted.forEach((each, at) => {
    const before = sorted[at - 1]
    if (before && compare(before.full, each.full) === 0) {
      throw new TypeError(`${JSON.stringify(before.name)} and ${JSON.stringify(each.name)} are the same version`)
    }
  })
  return sorted
}

/**
 * The newest version that a client's text allows: `1` allows every 1.x.y, `1.2` every 1.2.x, `1.2.3` itself. A
 * pre-release is served only to those who name it. `undefined` when there is none.
 */
export function bestVersion(asked: string, served: readonly Named[]): string | undefined {
  if (!isVersion(asked)) return undefined
  const parts = asked.split('.').length
  const range = new Range(parts === 1 ? `^${asked}.0.0` : parts === 2 ? `~${asked}.0` : asked)
  // ^0.0.0 would allow 0.0.x only; a bare 0 means every 0.x.y as a bare 1 means every 1.x.y.
  const zero = asked === '0' ? new Range('>=0.0.0 <1.0.0') : range
  return served.findLast(({ full }) => zero.test(full))?.name
}
