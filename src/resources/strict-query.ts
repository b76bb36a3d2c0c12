import { httpError, type HttpError } from '../http/errors.js'
import { describe, type Handler, type Operation } from '../http/exchange.js'
import { readOptions, value, type OptionTable } from '../runtime/options.js'
import { addResponses } from '../openapi/operation.js'
import { errorResponses } from '../openapi/responses.js'

/** Options of `strictQuery`. */
export interface StrictQueryOptions {
  /**
   * Further query parameters that a request may have, such as one that a policy in front reads.
   * Default: none.
   */
  readonly also?: readonly string[]
}

interface Parameter {
  readonly in?: unknown
  readonly name?: unknown
  readonly schema?: { readonly type?: unknown }
}

type Known = ReadonlyMap<string, boolean>

const OPTIONS = {
  also: value('a list of names', Array.isArray),
} satisfies OptionTable<StrictQueryOptions>
const LONGEST = 64

/**
 * Rejects repeated query parameters, and parameters that the handler's description does not name:
 * 400 `invalid_query`. Your own handlers get a description from `describe`.
 * @example
 * router({ 'GET /api/users': strictQuery(list({ repository })) })
 * @throws {TypeError} The handler has no description.
 */
export function strictQuery<C = unknown>(
  handler: Handler<C>, options: StrictQueryOptions = {},
): Handler<C> {
  const { operations } = handler
  if (operations === undefined || operations.length === 0) {
    const advice = 'give it one with describe(handler, [operation(…)])'
    throw new TypeError(`strictQuery: the handler has no description; ${advice}`)
  }
  const also = new Set(readOptions('strictQuery', options, OPTIONS).also)
  const known = new Map<string, Known>()
  for (const operation of operations) {
    const before = known.get(operation.method) ?? []
    known.set(operation.method, new Map([...before, ...queryOf(operation)]))
  }
  const namesOf = (method: string): Known | undefined => (
    known.get(method) ?? (method === 'HEAD' ? known.get('GET') : undefined)
  )
  return describe((request) => {
    const { method, search, query } = request
    const names = search === '' ? undefined : namesOf(method)
    if (names !== undefined) {
      for (const name of new Set(query.keys())) {
        if (also.has(name)) continue
        const several = names.get(name)
        if (several === undefined) throw unknown(name, names)
        if (!several && query.getAll(name).length > 1) {
          throw httpError('invalid_query', { message: `${JSON.stringify(name)} must occur once.` })
        }
      }
    }
    return handler(request)
  }, operations.map((operation) => addResponses(operation, errorResponses('invalid_query'))))
}

function queryOf({ openapi: { parameters } }: Operation): [string, boolean][] {
  const all = Array.isArray(parameters) ? parameters as Parameter[] : []
  return all.filter((each) => each.in === 'query')
    .map((each): [string, boolean] => [String(each.name), each.schema?.type === 'array'])
}

function unknown(name: string, names: Known): HttpError {
  const shown = JSON.stringify(name.length > LONGEST ? `${name.slice(0, LONGEST)}…` : name)
  const there = names.size === 0 ? 'there are none' : `there are ${[...names.keys()].map((known) => JSON.stringify(known)).join(', ')}`
  const message = `There is no query parameter ${shown} here; ${there}.`
  return httpError('invalid_query', { message })
}
