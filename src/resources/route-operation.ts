import type { Operation } from '../http/exchange.js'
import type { Route } from './route.js'

interface Parameter { readonly in?: unknown, readonly name?: unknown }

/**
 * What a handler says of itself, at the path where a route puts it. OpenAPI 3.1 wants a parameter
 * for each `{name}` of the path and no other in it, so those that are missing are added, and those
 * of other paths are left out.
 *
 * Operations of versions in the path (see `byPath()`) stand where the first segment is theirs: at
 * `/v1/users`, and in the place of the parameter of `/{version}/users`. Where they stand, those
 * that are for a path without a version do not.
 */
export function routeOperations(operations: readonly Operation[], route: Route): Operation[] {
  const [, first = ''] = route.template.split('/')
  const isParameter = first.startsWith('{')
  const isVersion = operations.some(({ versionSegment }) => versionSegment !== undefined && (isParameter || versionSegment === first))
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
  const kept = described.filter((parameter) => parameter.in !== 'path' || names.includes(String(parameter.name)))
  const added = names
    .filter((name) => !kept.some((parameter) => parameter.in === 'path' && parameter.name === name))
    .map((name) => ({ name, in: 'path', required: true, schema: { type: 'string' } }))
  if (added.length === 0 && kept.length === described.length) {
    return { ...operation, path: template }
  }
  return { ...operation, path: template, openapi: { ...operation.openapi, parameters: [...added, ...kept] } }
}
