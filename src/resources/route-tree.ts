import type { Route } from './route.js'

/** The route that a path matches. */
interface Found<T> {
  readonly data: T
  /**
   * Parameters as sent, in an object without a prototype; absent if the route has none.
   */
  readonly params?: Record<string, string> | undefined
}

/** One position in the routes: the segments that may follow. */
interface Branch<T> {
  readonly literals: Map<string, Branch<T>>
  parameter?: Branch<T>
  /** Set where a route ends. */
  /** Set if a route ends here. */
  end?: End<T>
}

interface End<T> {
  readonly names: readonly string[]
  readonly data: T
}
/**
 * Finds the route of a path. Most paths match a route without parameters, or one that ends in its
 * only parameter: two lookups in a map find these. No other route could win there, because literal
 * segments win over parameters. All other paths walk the tree, which visits each branch at most
 * once.
 */
export class RouteTree<T> {
  private readonly root: Branch<T> = { literals: new Map() }
  private readonly literals = new Map<string, Found<T>>()
  /** By the text before the parameter, without the slash. */
  private readonly tails = new Map<string, End<T>>()

  add({ template, names }: Route, data: T): void {
    let branch = this.root
    for (const segment of template.split('/')) {
      if (segment === '') continue
      if (segment.startsWith('{')) branch = branch.parameter ??= { literals: new Map() }
      else branch = follow(branch.literals, segment)
    }
    branch.end = { names, data }
    if (names.length === 0) this.literals.set(template, { data })
    else if (names.length === 1 && template.endsWith('}')) {
      this.tails.set(template.slice(0, template.lastIndexOf('/')), { names, data })
    }
  }

  find(path: string): Found<T> | undefined {
    const literal = this.literals.get(path)
    if (literal !== undefined) return literal
    const slash = path.lastIndexOf('/')
    const tail = slash < path.length - 1 ? this.tails.get(path.slice(0, slash)) : undefined
    if (tail !== undefined) {
      return { data: tail.data, params: new Params(tail.names, [path.slice(slash + 1)]) }
    }
    const values: string[] = []
    const end = walk(this.root, path, 1, values)?.end
    if (end === undefined) return undefined
    if (values.length === 0) return { data: end.data }
    return { data: end.data, params: new Params(end.names, values) }
  }
}

function follow<T>(literals: Map<string, Branch<T>>, segment: string): Branch<T> {
  const there = literals.get(segment)
  if (there !== undefined) return there
  const branch: Branch<T> = { literals: new Map() }
  literals.set(segment, branch)
  return branch
}

/** Finds the branch where a route ends, from the segment at `from`. Adds parameters to `values`. */
function walk<T>(
  branch: Branch<T>, path: string, from: number, values: string[],
): Branch<T> | undefined {
  // At the end of the path, or after one slash at its end.
  if (from >= path.length) return branch.end === undefined ? undefined : branch
  const slash = path.indexOf('/', from)
  const to = slash < 0 ? path.length : slash
  if (to === from) return undefined
  const segment = path.slice(from, to)
  const literal = branch.literals.get(segment)
  const found = literal && walk(literal, path, to + 1, values)
  if (found !== undefined || branch.parameter === undefined) return found
  values.push(segment)
  const below = walk(branch.parameter, path, to + 1, values)
  if (below === undefined) values.pop()
  return below
}

/** A class, because V8 treats an object that is created without a prototype as a dictionary. */
class Params {
  [name: string]: string
  constructor(names: readonly string[], values: readonly string[]) {
    for (let at = 0; at < names.length; at++) this[names[at] as string] = values[at] as string
  }

  static {
    Object.setPrototypeOf(this.prototype, null)
  }
}
