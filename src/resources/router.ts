import { httpError } from '../http/errors.js'
import { type Handler, type HttpRequest, checkCall } from '../http/exchange.js'
import { allowValue, MethodTable, optionsResponse, STANDARD_METHODS } from './methods.js'
import { routeChannel, type RouteEvent } from './route-channel.js'
import { parseRoute, routeOperations, RouteTree, shapeOf, type Route } from './routes.js'

interface Entry<C> {
  readonly route: Route
  readonly table: MethodTable<C>
}

/**
 * Combines handlers by method and path, for servers without a router.
 *
 * Keys are one method, several or any, and a path below the mount path: `'POST /start-job'`,
 * `'GET|DELETE /jobs/{id}'`, `'* /x'` or `'/x'`. A parameter fills one segment and is never empty.
 * It is percent-decoded in `request.params`.
 *
 * - A path without a route is declined: the next handler of your framework gets it.
 * - Literal segments win over parameters, and a path belongs to one template: with `POST
 *   /users/bulk` and `GET /users/{id}`, `GET /users/bulk` is a 405.
 * - HEAD, OPTIONS and other methods: see `resource`. `OPTIONS *` at the root lists all methods.
 * - Paths are compared as sent. Case matters, nothing is decoded before matching (`%2F` stays
 *   inside its segment), and `//` matches nothing. One slash at the end makes no difference.
 * - A parameter that is badly percent-encoded, is `.` or `..`, or has a NUL: 400 `invalid_path`.
 * @example
 * const { submit, status } = endpoints
 * const api = router({ 'POST /reports': submit(report), 'GET|HEAD|DELETE /tasks/{id}': status })
 * @throws {TypeError} A route is malformed, or two routes conflict.
 */
export function router<C = unknown>(routes: Readonly<Record<string, Handler<C>>>): Handler<C> {
  const tree = new RouteTree<Entry<C>>()
  const shapes = new Map<string, Entry<C>>()
  const described: { route: Route, table: MethodTable<C>, handler: Handler<C> }[] = []
  const known = new Set(STANDARD_METHODS)

  for (const [key, handler] of Object.entries(routes)) {
    const route = parseRoute(key)
    let entry = shapes.get(route.shape)
    if (entry === undefined) {
      entry = { route, table: new MethodTable() }
      shapes.set(route.shape, entry)
      tree.add(route, entry)
    } else if (entry.route.template !== route.template) {
      const both = `${JSON.stringify(entry.route.key)} and ${JSON.stringify(key)}`
      const advice = 'name its parameters the same in both'
      throw new TypeError(`router: ${both} are the same path; ${advice}`)
    }
    for (const method of route.methods.length > 0 ? route.methods : [undefined]) {
      entry.table.add(`router: the route ${JSON.stringify(key)}`, method, handler)
      if (method !== undefined) known.add(method)
    }
    described.push({ route, table: entry.table, handler })
    warnOfOtherPath(route, handler)
  }
  if (shapes.size === 0) {
    const advice = "pass an object such as { 'POST /jobs': handler }"
    throw new TypeError(`router: there are no routes; ${advice}`)
  }
  // Only operations that reach their handler: one for any method may be hidden by those of a
  // method.
  const operations = described.flatMap(({ route, table, handler }) => {
    const all = handler.operations ?? []
    return routeOperations(all.filter(({ method }) => table.find(method) === handler), route)
  })
  const serverAllow = allowValue([...shapes.values()].flatMap(({ table }) => table.methods()))

  const handle: Handler<C> = (request, extra?: unknown) => {
    checkCall(request, extra)
    const { method } = request
    const path = localPath(request)
    if (path === undefined) {
      return method === 'OPTIONS' && request.path === '*' ? optionsResponse(serverAllow) : undefined
    }
    const found = tree.find(path)
    if (found === undefined) return undefined
    const { route: { names, template }, table } = found.data
    if (routeChannel.hasSubscribers) {
      routeChannel.publish({ method, mountPath: request.mountPath, template } satisfies RouteEvent)
    }
    const handler = table.find(method)
    if (handler === undefined) return table.otherwise(method, known)
    if (found.params === undefined) return table.call(handler, request)
    const params = finishParams(found.params, names, request.params)
    return table.call(handler, request.with({ params }))
  }
  return Object.assign(handle, { operations })
}

/** Warns if a handler describes another path, because the `Location` of a task would be a 404. */
function warnOfOtherPath(
  { key, template, shape }: Route, { operations = [] }: Pick<Handler, 'operations'>,
): void {
  const inPath = operations.some(({ versionSegment }) => versionSegment !== undefined)
  const other = operations.find(({ path }) => path?.includes('{') && shapeOf(path) !== shape)
  if (inPath || other === undefined) return
  const shown = `router: the handler of ${JSON.stringify(key)} is for ${String(other.path)}`
  process.emitWarning(`${shown}, so links to it lead nowhere. `
    + `Make both paths the same, such as statusPath: '${template}'.`, 'LonghaulWarning')
}

/** Returns the path below the mount path: `''`, or starting with a slash. Otherwise `undefined`. */
function localPath({ path, mountPath }: HttpRequest): string | undefined {
  if (mountPath === '') return path.startsWith('/') ? path : undefined
  if (!path.startsWith(mountPath)) return undefined
  const local = path.slice(mountPath.length)
  return local === '' || local.startsWith('/') ? local : undefined
}

type Params = Record<string, string>

/**
 * Percent-decodes the values of `params`, a new object without a prototype, and adds those of
 * `outer`.
 */
function finishParams(params: Params, names: readonly string[], outer: Readonly<Params>): Params {
  for (const name of names) params[name] = decode(params[name] ?? '')
  for (const name in outer) {
    if (!(name in params)) params[name] = outer[name] ?? ''
  }
  return params
}

function decode(raw: string): string {
  const value = raw.includes('%') ? decodeSegment(raw) : raw
  if (value === undefined || value === '.' || value === '..' || value.includes('\0')) {
    throw httpError('invalid_path')
  }
  return value
}

function decodeSegment(raw: string): string | undefined {
  try {
    return decodeURIComponent(raw)
  } catch {
    return undefined
  }
}
