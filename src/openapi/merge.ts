import type { Operation } from '../http/exchange.js'
import type { Fragment } from './operation.js'

type Responses = Readonly<Record<string, Fragment>>

/**
 * Adds responses to an operation. Responses of a status that it already has are merged.
 *
 * @example
 * const [described] = handler.operations ?? []
 * if (described) addResponses(described, errorResponses('forbidden'))
 */
export function addResponses(
  operation: Operation, responses: Readonly<Record<string, Fragment>>,
): Operation {
  const own = operation.openapi['responses'] as Responses
  const joined = joinByName(own, responses, joinResponses)
  return { ...operation, openapi: { ...operation.openapi, responses: joined } }
}

/**
 * Adds header fields to each response of an operation, errors included.
 *
 * @example
 * const [described] = handler.operations ?? []
 * if (described) addResponseHeaders(described, { 'X-Region': header('The region that answered') })
 */
export function addResponseHeaders(
  operation: Operation, headers: Readonly<Record<string, Fragment>>,
): Operation {
  const own = operation.openapi['responses'] as Responses
  return {
    ...operation,
    openapi: {
      ...operation.openapi,
      responses: Object.fromEntries(Object.entries(own).map(([status, response]) =>
        [status, { ...response, headers: { ...headers, ...(response['headers'] as Fragment | undefined) } }])),
    },
  }
}

/**
 * Adds parameters that an operation does not have yet.
 *
 * @example
 * const [described] = handler.operations ?? []
 * if (described) addParameters(described, [parameter('query', 'locale')])
 */
export function addParameters(operation: Operation, parameters: readonly Fragment[]): Operation {
  const own = (operation.openapi['parameters'] ?? []) as readonly Fragment[]
  const added = parameters.filter((one) => !own.some((other) => (
    other['in'] === one['in'] && other['name'] === one['name']
  )))
  if (added.length === 0) return operation
  return { ...operation, openapi: { ...operation.openapi, parameters: [...own, ...added] } }
}

/**
 * Merges two operations of one method and path into one that may answer like either. Other members
 * come from the first.
 */
export function mergeOperations(first: Operation, second: Operation): Operation {
  const joined = addResponses(first, second.openapi['responses'] as Responses)
  // One that is partly deprecated is not deprecated.
  const deprecated = first.openapi['deprecated'] !== second.openapi['deprecated']
  const bodies = [first.openapi['requestBody'], second.openapi['requestBody']] as (Fragment | undefined)[]
  const requestBody = bodies[0] && bodies[1]
    ? joinContents(bodies[0], bodies[1])
    : bodies[0] ?? bodies[1]
  return addParameters(
    { ...joined, openapi: { ...joined.openapi, ...requestBody && { requestBody }, ...deprecated && { deprecated: false } } },
    (second.openapi['parameters'] ?? []) as readonly Fragment[],
  )
}

function joinResponses(first: Fragment, second: Fragment): Fragment {
  const descriptions = new Set([first['description'], second['description']])
  const headers = {
    ...(second['headers'] as Fragment | undefined), ...(first['headers'] as Fragment | undefined),
  }
  return {
    ...joinContents(first, second),
    description: [...descriptions].filter(Boolean).join(' '),
    ...Object.keys(headers).length > 0 && { headers },
  }
}

function joinContents(first: Fragment, second: Fragment): Fragment {
  const content = joinByName((first['content'] ?? {}) as Responses, (second['content'] ?? {}) as Responses, (one, other) =>
    (one['schema'] === other['schema'] ? one : { ...one, schema: eitherOf(one['schema'], other['schema']) }))
  return { ...first, ...Object.keys(content).length > 0 && { content } }
}

/** A schema for what fits one of two. What both allow is said once. */
function eitherOf(first: unknown, second: unknown): unknown {
  const all = [...choicesOf(first), ...choicesOf(second)]
  const distinct = [...new Map(all.map((schema) => [JSON.stringify(schema), schema])).values()]
  return distinct.length === 1 ? distinct[0] : { anyOf: distinct }
}

function choicesOf(schema: unknown): readonly unknown[] {
  const { anyOf, ...rest } = schema as { readonly anyOf?: readonly unknown[] }
  return anyOf !== undefined && Object.keys(rest).length === 0 ? anyOf : [schema]
}

function joinByName(
  first: Responses, second: Responses, join: (one: Fragment, other: Fragment) => Fragment,
): Responses {
  const all: Record<string, Fragment> = { ...first }
  for (const [name, value] of Object.entries(second)) {
    const there = all[name]
    all[name] = there === undefined || there === value ? value : join(there, value)
  }
  return all
}
