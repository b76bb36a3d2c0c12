import type { Handler, Operation } from '../http/exchange.js'
import { checkNames } from '../runtime/option-names.js'
import { errorContent, errorSchema, problemSchema } from './errors.js'
import { requestFields, responseFields } from './fields.js'
import { mergeOperations } from './merge.js'
import { operationIds } from './operation-id.js'
import type { Fragment } from './operation.js'

/**
 * Members of a document beside the operations: members of the OpenAPI object (OpenAPI 3.1 section
 * 4.8.1).
 */
export interface DocumentOptions {
  /** `title` and `version` are required by the specification. */
  readonly info: Fragment & { readonly title: string, readonly version: string }
  /** Servers of the API. Default: none, which means the address that the document came from. */
  readonly servers?: readonly Fragment[]
  /** Descriptions of the tags. */
  readonly tags?: readonly Fragment[]
  /** For operations that don't name their own. */
  readonly security?: readonly Fragment[]
  /** Further documentation. */
  readonly externalDocs?: Fragment
  /** Schemes that operations name and no policy describes, by their names. */
  readonly securitySchemes?: Readonly<Record<string, Fragment>>
}

const KNOWN = {
  info: 0, servers: 0, tags: 0, security: 0, externalDocs: 0, securitySchemes: 0,
} satisfies Record<keyof DocumentOptions, 0>

type Components = Record<string, Record<string, unknown>>

/** Operations that OpenAPI 3.1 has a place for; others (CONNECT, QUERY) can't be written down. */
const METHODS: readonly string[] = ['GET', 'PUT', 'POST', 'DELETE', 'OPTIONS', 'HEAD', 'PATCH', 'TRACE']
const UNFORESEEN: Fragment = {
  description: 'Any other failure, in the one shape that all of them have', content: errorContent,
}
/**
 * Fragments that occur everywhere are named once. They are the same values, so they are found by
 * identity.
 */
const SHARED = new Map<unknown, readonly [section: string, name: string]>(
  [[errorSchema, ['schemas', 'Error']], [problemSchema, ['schemas', 'Problem']]]
)
for (const [name, field] of Object.entries(responseFields)) SHARED.set(field, ['headers', name])
for (const [name, field] of Object.entries(requestFields)) SHARED.set(field, ['parameters', name])

/**
 * Returns the OpenAPI 3.1 document of a `router()`, or of handlers whose paths are known, as a
 * plain value. Several handlers at one method and path, as under `versions()`, become one operation
 * with the answers of all of them. If the handlers are behind a mount path, pass `servers: [{ url:
 * '/mount' }]`.
 *
 * @example
 * const document = openapi(handler, { info: { title: 'Reports', version: '1.0.0' } })
 * app.get('/openapi.json', toNode(() => json(200, document)))
 *
 * @throws {TypeError} There is no description, or an operation has no path: put its handler into a
 * `router()`.
 */
export function openapi(
  handlers: Handler<never> | readonly Handler<never>[], options: DocumentOptions,
): Fragment {
  checkNames('openapi', options, KNOWN)
  const operations = [handlers].flat().flatMap((handler) => (handler as Handler).operations ?? [])
  if (operations.length === 0) {
    throw new TypeError('openapi: none of these handlers describes itself; pass a router(), or handlers made with describe()')
  }
  const paths = new Map<string, Map<string, Operation>>()
  const schemes: Record<string, Fragment> = { ...options.securitySchemes }
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
  const ids = operationIds([...paths.values()].flatMap((item) => [...item.values()]))
  const used: Components = {}
  const described = [...paths].map(([path, item]) => [path, Object.fromEntries([...item].map(([method, operation]) =>
    [method.toLowerCase(), named(operation, ids.get(operation) as string, used)]))])
  const { info, servers, tags, security, externalDocs } = options
  return {
    openapi: '3.1.1',
    info,
    ...externalDocs && { externalDocs },
    ...servers && { servers },
    ...tags && { tags },
    ...security && { security },
    paths: Object.fromEntries(described) as Fragment,
    components: {
      ...used,
      schemas: { Error: errorSchema, Problem: problemSchema },
      ...Object.keys(schemes).length > 0 && { securitySchemes: schemes },
    },
  }
}

function named(
  { openapi: { responses, ...rest } }: Operation, operationId: string, used: Components,
): Fragment {
  const told = { ...rest, operationId, responses: { ...(responses as Fragment), default: (responses as Fragment)['default'] ?? UNFORESEEN } }
  return refer(told, used) as Fragment
}

/** The same with what is shared replaced by references, and without members that are undefined. */
function refer(value: unknown, used: Components): unknown {
  const shared = SHARED.get(value)
  if (shared !== undefined) {
    const [section, name] = shared
    ;(used[section] ??= {})[name] = value
    return { $ref: `#/components/${section}/${name}` }
  }
  if (Array.isArray(value)) return value.map((each) => refer(each, used))
  if (value === null || typeof value !== 'object') return value
  return Object.fromEntries(Object.entries(value).flatMap(([key, member]) => (member === undefined ? [] : [[key, refer(member, used)]])))
}
