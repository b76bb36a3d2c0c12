export type Known = Readonly<Record<string, unknown>>

/**
 * Checks the names of options, inherited ones included.
 *
 * @param where - start of the message: the function, and the property if the options are nested
 * @param known - an object with all names, so that `satisfies Record<keyof Options, …>` checks it
 * @throws {TypeError} The options are no object, or a name is unknown. The message lists all names.
 */
export function checkNames(where: string, options: unknown, known: Known): void {
  if (!options || typeof options !== 'object') {
    throw new TypeError(`${where}: pass options, such as { ${String(Object.keys(known)[0])} }`)
  }
  for (const name in options) {
    if (!Object.hasOwn(known, name)) throw unknownName(where, name, options as Known, known)
  }
}

function unknownName(where: string, name: string, options: Known, known: Known): TypeError {
  const names = Object.keys(known)
  const meant = nearest(name, names.filter((each) => options[each] === undefined))
  const advice = meant === undefined ? '.' : `; did you mean "${meant}"?`
  return new TypeError(`${where}: there is no option "${name}"${advice} ${listed(names)}`)
}

function listed(names: readonly string[]): string {
  if (names.length === 0) return 'There are no options here.'
  if (names.length === 1) return `The only option is ${String(names[0])}.`
  return `The options are ${names.slice(0, -1).join(', ')} and ${String(names.at(-1))}.`
}

/** Returns the first of some names that `name` may be a misspelling of. */
export function nearest(name: string, names: readonly string[]): string | undefined {
  return names.find((each) => isNear(name.toLowerCase(), each.toLowerCase()))
}

/** Returns true if two names differ only in the unit, or by two edits; short ones by one edit. */
function isNear(a: string, b: string): boolean {
  return stem(a) === stem(b) || isWithin(a, b, a.length > 5 && b.length > 5 ? 2 : 1)
}

function stem(name: string): string {
  return name.replace(/(ms|seconds|bytes)$/, '')
}

/** An edit removes, inserts or changes a letter, or exchanges two neighbours. */
function isWithin(a: string, b: string, edits: number): boolean {
  if (a === b || edits < 0) return edits >= 0
  const [restA, restB] = [a.slice(1), b.slice(1)]
  if (a[0] === b[0]) return isWithin(restA, restB, edits)
  if (a[0] === b[1] && a[1] === b[0] && isWithin(a.slice(2), b.slice(2), edits - 1)) return true
  return isWithin(restA, b, --edits) || isWithin(a, restB, edits) || isWithin(restA, restB, edits)
}
