import type { Operation } from '../http/exchange.js'
import type { Route } from './route.js'

interface Parameter { readonly in?: unknown, readonly name?: unknown }

/**
 * Returns the operations of a handler at the path of a route. OpenAPI 3.1 requires exactly one path
 * parameter for each `{name}`, so missing ones are added, and those of other paths are removed.
 *
 * Operations of versions in the path (see `byPath()`) are included if the first segment is theirs,
 * as in `/v1/users`, or a parameter, as in `/{version}/users`. They replace the operations for
 * paths without a version.
 */
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
