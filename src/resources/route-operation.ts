import type { Operation } from '../http/exchange.js'
import type { Route } from './route.js'

interface Parameter { readonly in?: unknown, readonly name?: unknown }

/**
 * What a handler says of itself, at the path where a route puts it. OpenAPI 3.1 wants a parameter for each `{name}` of
 * the path and no other in it, so those that are missing are added, and those of other paths are left out.
 */
export function routeOperation(operation: Operation, { template, names }: Route): Operation {
  const { parameters } = operation.openapi
  const described = Array.isArray(parameters) ? (parameters as Parameter[]) : []
  const kept = described.filter((parameter) => parameter.in !== 'path' || names.includes(String(parameter.name)))
  const added = names
    .filter((name) => !kept.some((parameter) => parameter.in === 'path' && parameter.name === name))
    .map((name) => ({ name, in: 'path', required: true, schema: { type: 'string' } }))
  if (added.length === 0 && kept.length === described.length) return { ...operation, path: template }
  return { ...operation, path: template, openapi: { ...operation.openapi, parameters: [...added, ...kept] } }
}
