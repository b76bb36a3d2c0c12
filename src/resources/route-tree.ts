import { addRoute, createRouter, findRoute } from 'rou3'
import type { Route } from './route.js'

/** What a path has led to. */
interface Found<T> {
  readonly data: T
  /** As they stand in the path, in an object without a prototype; absent where the route has none. */
  readonly params?: Record<string, string> | undefined
}

/**
 * Finds where a path leads. Most paths are of a route without parameters, or of one that ends in its only parameter: two looks
 * into a map find these. No other route could win there: in each of its segments a literal one does. All else is rou3's.
 */
export class RouteTree<T> {
  private readonly tree = createRouter<T>()
  private readonly literals = new Map<string, Found<T>>()
  /** By what stands before the parameter, without the slash. */
  private readonly tails = new Map<string, { readonly name: string, readonly data: T }>()

  add({ template, pattern, names }: Route, data: T): void {
    addRoute(this.tree, '', pattern, data)
    const [name] = names
    if (name === undefined) this.literals.set(template, { data })
    else if (names.length === 1 && template.endsWith('}')) this.tails.set(template.slice(0, template.lastIndexOf('/')), { name, data })
  }

  find(path: string): Found<T> | undefined {
    const literal = this.literals.get(path)
    if (literal !== undefined) return literal
    const slash = path.lastIndexOf('/')
    const tail = slash < path.length - 1 ? this.tails.get(path.slice(0, slash)) : undefined
    return tail === undefined ? findRoute(this.tree, '', path) : { data: tail.data, params: new Params(tail.name, path.slice(slash + 1)) }
  }
}

/** One parameter. A class, because V8 takes an object made without a prototype for a dictionary. */
class Params {
  [name: string]: string
  constructor(name: string, value: string) {
    this[name] = value
  }

  static {
    Object.setPrototypeOf(this.prototype, null)
  }
}
