import type { Operation } from '../http/exchange.js'

export interface Route {
  readonly key: string
  /** Upper-case methods; none means any. */
  readonly methods: readonly string[]
  readonly template: string
  readonly names: readonly string[]
  readonly shape: string
}

const ROUTE = /^(?:(\S+) +)?(\/.*)$/s
const PARAMETER = /^\{([A-Za-z_][A-Za-z0-9_]*)\}$/
/** The characters of a segment (RFC 3986 section 3.3). */
const LITERAL = /^(?:[A-Za-z0-9._~!$&'()*+,;=:@-]|%[0-9A-Fa-f]{2})+$/

export function parseRoute(key: string): Route {
  const fail = (advice: string): never => {
    throw new TypeError(`router: the route ${JSON.stringify(key)}: ${advice}`)
  }
  const [, before = '', template = ''] = ROUTE.exec(key)
    ?? fail("write a method and a path, such as 'GET /jobs/{id}'")
  const methods = before === '' || before === '*' ? [] : before.split('|')
  const names: string[] = []
  const parts = template === '/' ? [] : template.slice(1).split('/')
  for (const part of parts) {
    const name = PARAMETER.exec(part)?.[1]
    if (name !== undefined) {
      if (names.includes(name)) {
        fail(`the parameter {${name}} is there twice; give each a name of its own`)
      }
      names.push(name)
    } else checkLiteral(part, fail)
  }
  return { key, methods, template, names, shape: shapeOf(template) }
}

/** Returns a template without the names of its parameters. */
export function shapeOf(template: string): string {
  return template.replaceAll(/\{[^}]*\}/g, '{}')
}

function checkLiteral(part: string, fail: (advice: string) => never): void {
  if (part === '') {
    fail('leave out empty segments and the slash at the end: '
      + 'a request with one more slash at its end matches too')
  }
  if (part === '.' || part === '..') {
    fail("'.' and '..' cannot be segments, clients take them out before they send a path")
  }
  if (part.includes('{') || part.includes('}')) {
    fail('a parameter fills a whole segment and is named like a variable, as in /jobs/{id}')
  }
  if (part.startsWith(':')) fail(`write {${part.slice(1)}} instead of ${part}`)
  if (part.includes('*')) {
    fail('there are no wildcards; mount a handler of its own for a whole subtree')
  }
  if (!LITERAL.test(part)) {
    fail(`${JSON.stringify(part)} cannot be part of a path as clients send it; `
      + 'percent-encode it (encodeURIComponent)')
  }
}

interface Found<T> {
  readonly data: T
  /** Parameters as sent, in an object without a prototype; absent if the route has none. */
  readonly params?: Record<string, string> | undefined
}

interface Branch<T> {
  readonly literals: Map<string, Branch<T>>
  parameter?: Branch<T>
  end?: End<T>
}

interface End<T> {
  readonly names: readonly string[]
  readonly data: T
}
/**
 * Finds the route of a path: by two lookups in a map, if it has no parameter or ends in its only
 * one. Other paths walk the tree, which visits each branch at most once.
 */
export class RouteTree<T> {
  private readonly root: Branch<T> = { literals: new Map() }
  private readonly literals = new Map<string, Found<T>>()
  /** Routes by the text before their parameter, without the slash. */
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

interface Parameter { readonly in?: unknown, readonly name?: unknown }

export function routeOperations(operations: readonly Operation[], route: Route): Operation[] {
  const [, first = ''] = route.template.split('/')
  const isParameter = first.startsWith('{')
  const isVersion = operations.some(({ versionSegment }) => (
    versionSegment !== undefined && (isParameter || versionSegment === first)
  ))
  return operations.flatMap((operation) => {
    const { versionSegment } = operation
    if (versionSegment === undefined) {
      return isVersion ? [] : at(operation, route.template, route.names)
    }
    if (versionSegment === first) return at(operation, route.template, route.names)
    if (!isParameter) return []
    return at(operation, route.template.replace(first, versionSegment), route.names.slice(1))
  })
}

function at(operation: Operation, template: string, names: readonly string[]): Operation {
  const { parameters } = operation.openapi
  const described = Array.isArray(parameters) ? (parameters as Parameter[]) : []
  const kept = described.filter((parameter) => (
    parameter.in !== 'path' || names.includes(String(parameter.name))
  ))
  const added = names
    .filter((name) => !kept.some((parameter) => parameter.in === 'path' && parameter.name === name))
    .map((name) => ({ name, in: 'path', required: true, schema: { type: 'string' } }))
  if (added.length === 0 && kept.length === described.length) {
    return { ...operation, path: template }
  }
  const openapi = { ...operation.openapi, parameters: [...added, ...kept] }
  return { ...operation, path: template, openapi }
}
