import type { SemVer } from 'semver'
// Not `semver` itself, which loads all of its 47 files.
import coerce from 'semver/functions/coerce.js'
import compare from 'semver/functions/compare.js'
import parse from 'semver/functions/parse.js'

/**
 * A version as clients may ask for it: `1`, `1.2`, `1.2.3`, or with a pre-release `2.0.0-beta.1`.
 */
const ASKED = /^(?:0|[1-9]\d{0,8})(?:\.(?:0|[1-9]\d{0,8})(?:\.(?:0|[1-9]\d{0,8})(?:-[0-9A-Za-z.-]{1,64})?)?)?$/

/**
 * The full version (semver.org) behind a text: `1` is 1.0.0. `undefined` for what names no version.
 */
function read(text: string): SemVer | undefined {
  if (text.length > 100 || !ASKED.test(text)) return undefined
  return (text.includes('-') ? parse(text) : coerce(text)) ?? undefined
}

/** Returns whether a text is a version. */
export function isVersion(text: string): boolean {
  return read(text) !== undefined
}

/**
 * Returns the full version of a name.
 *
 * @throws {TypeError} The name is no version.
 */
export function toFull(name: string): SemVer {
  const full = read(name)
  if (!full) throw new TypeError(`versions: ${JSON.stringify(name)} is no version; write 1, 1.2 or 1.2.3`)
  return full
}

/** One version that is served. */
export interface Named {
  /** As its owner wrote it. */
  readonly name: string
  readonly full: SemVer
}

/**
 * Sorts versions, oldest first.
 *
 * @throws {TypeError} Two names mean the same version.
 */
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
 * Returns the newest version that a client's text allows: `1` allows every 1.x.y, `1.2` every
 * 1.2.x, `1.2.3` itself. A pre-release must be named in full. `undefined` if no version matches, or
 * the text is no version.
 */
export function bestVersion(asked: string, served: readonly Named[]): string | undefined {
  const wanted = read(asked)
  if (wanted === undefined) return undefined
  const parts = asked.includes('-') ? 3 : asked.split('.').length
  const allowed = ({ full }: Named): boolean => parts === 3
    ? compare(full, wanted) === 0
    : full.prerelease.length === 0 && full.major === wanted.major && (parts === 1 || full.minor === wanted.minor)
  return served.findLast(allowed)?.name
}
