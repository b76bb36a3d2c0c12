import type { Handler, Operation } from '../http/exchange.js'
import { readOptions, value, type OptionTable } from '../runtime/options.js'
import { capitalized, Components, uniqueName } from './components.js'
import { errorSchema, problemSchema, unexpectedError } from './errors.js'
import { mergeOperations, type Fragment } from './operation.js'

/** Parts of a document beside the operations (OpenAPI 3.1 section 4.8.1). */
export interface DocumentOptions {
  /** `title` and `version` are required by the specification. */
  readonly info: Fragment & { readonly title: string, readonly version: string }
  /** Servers of the API. Default: none, which means the address that the document came from. */
  readonly servers?: readonly Fragment[]
  /** Descriptions of the tags. */
  readonly tags?: readonly Fragment[]
  /**
   * Security of your framework: security schemes by name, of which each request needs one; or a
   * list of security requirements. Default: none.
   *
   * An operation with its own `security`, such as one behind `authenticate`, keeps it.
   */
  readonly security?: Readonly<Record<string, Fragment>> | readonly Fragment[]
  /** Schemes that requirements name and no policy describes, by their names. */
  readonly securitySchemes?: Readonly<Record<string, Fragment>>
}

const OPTIONS = {
  info: value('{ title, version }', (info) => typeof info === 'object', { required: true }),
  servers: value(), tags: value(), security: value(), securitySchemes: value(),
} satisfies OptionTable<DocumentOptions>

/** OpenAPI 3.1 has no place for other methods, such as CONNECT and QUERY. */
const METHODS: readonly string[] = ['GET', 'PUT', 'POST', 'DELETE', 'OPTIONS', 'HEAD', 'PATCH', 'TRACE']

/**
 * Returns the OpenAPI 3.1 document of a `router()`, or of handlers whose paths are known. Several
 * handlers at one method and path become one operation. Parts that occur more than once are
 * components. HEAD is left out if there is a GET. Behind a mount path, pass `servers: [{ url:
 * '/mount' }]`.
 * @example
 * const document = openapi(handler, { info: { title: 'Reports', version: '1.0.0' } })
 * app.get('/openapi.json', toNode(() => json(200, document)))
 * @throws {TypeError} There is no description, or an operation has no path: use a `router()`.
 */
export function openapi(
  handlers: Handler<never> | readonly Handler<never>[], options: DocumentOptions,
): Fragment {
  const { info, servers, tags, security: given, securitySchemes: own } =
    readOptions('openapi', options, OPTIONS)
  const named = Array.isArray(given) ? undefined : given as DocumentOptions['securitySchemes']
  const security = named ? Object.keys(named).map((name) => ({ [name]: [] })) : given
  const operations = [handlers].flat().flatMap((handler) => (handler as Handler).operations ?? [])
  if (operations.length === 0) {
    throw new TypeError('openapi: none of these handlers describes itself; pass a router(), or handlers made with describe()')
  }
  const paths = new Map<string, Map<string, Operation>>()
  const schemes: Record<string, Fragment> = { ...own, ...named }
  for (const operation of operations) {
    const { method, path, securitySchemes } = operation
    if (path === undefined) {
      throw new TypeError(`openapi: an operation ${method} has no path; put its handler into a router(), or give the operation one`)
    }
    Object.assign(schemes, securitySchemes)
    if (!METHODS.includes(method)) continue
    const item = paths.get(path) ?? new Map<string, Operation>()
    paths.set(path, item)
    const other = item.get(method)
    item.set(method, other === undefined ? operation : mergeOperations(other, operation))
  }
  for (const item of paths.values()) if (item.has('GET')) item.delete('HEAD')
  const ids = operationIds([...paths.values()].flatMap((item) => [...item.values()]))
  const components = new Components(ids.values())
  components.name('schemas', 'Error', errorSchema)
  components.name('schemas', 'Problem', problemSchema)
  const described = Object.fromEntries([...paths].map(([path, item]) => {
    const operations = [...item].map(([method, operation]) => {
      const { responses, ...rest } = operation.openapi
      const all = { ...responses as Fragment }
      const operationId = ids.get(operation) as string
      const complete = {
        ...rest, operationId, responses: { ...all, default: all['default'] ?? unexpectedError },
      }
      return [method.toLowerCase(), components.operation(capitalized(operationId), complete)] as const
    })
    return [path, Object.fromEntries(operations)]
  }))
  return {
    openapi: '3.1.1',
    info,
    ...servers && { servers },
    ...tags && { tags },
    ...security && { security },
    ...components.finish(described, schemes),
  }
}

/** An id for each operation: its own, else made of its method and path, as `getApiStatusId`. */
export function operationIds(operations: readonly Operation[]): Map<Operation, string> {
  const taken = new Set<string>()
  return new Map(operations.map((operation) => {
    const wanted = typeof operation.openapi['operationId'] === 'string'
      ? operation.openapi['operationId']
      : made(operation)
    const id = uniqueName(wanted, (name) => taken.has(name))
    taken.add(id)
    return [operation, id]
  }))
}

function made({ method, path = '' }: Operation): string {
  const words = path.split(/[^A-Za-z0-9]+/).filter((word) => word !== '')
  return method.toLowerCase() + words.map((word) => word.charAt(0).toUpperCase() + word.slice(1)).join('')
}
