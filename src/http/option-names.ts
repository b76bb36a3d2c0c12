/** The names that options may have. */
export type Known = Readonly<Record<string, unknown>>

/**
 * Throws a `TypeError` for options that are none, and for a name that is not known but near to a known one that is not given: nobody would hear of
 * a misspelling in JavaScript. Names that are near to none are fine, because settings are shared and spread.
 *
 * @param known - members by these names, so that `satisfies Record<keyof Options, …>` finds one that is missing
 */
export function checkNames(where: string, options: unknown, known: Known): void {
  const names = Object.keys(known)
  if (!options || typeof options !== 'object') throw new TypeError(`${where}: pass options, such as { ${String(names[0])} }`)
  for (const name in options) {
    if (name in known) continue
    const meant = names.find((each) => (options as Known)[each] === undefined && isNear(name.toLowerCase(), each.toLowerCase()))
    if (meant) throw new TypeError(`${where}: there is no option "${name}"; did you mean "${meant}"?`)
  }
}

/** The same but for a unit at the end; or two edits apart, of names up to five letters one. */
function isNear(a: string, b: string): boolean {
  return stem(a) === stem(b) || isWithin(a, b, a.length > 5 && b.length > 5 ? 2 : 1)
}

function stem(name: string): string {
  return name.replace(/(ms|seconds|bytes)$/, '')
}

/** Whether so many letters left out, put in or changed make `a` into `b`. */
function isWithin(a: string, b: string, edits: number): boolean {
  if (a === b || edits < 0) return edits >= 0
  const [restA, restB] = [a.slice(1), b.slice(1)]
  if (a[0] === b[0]) return isWithin(restA, restB, edits)
  return isWithin(restA, b, --edits) || isWithin(a, restB, edits) || isWithin(restA, restB, edits)
}
