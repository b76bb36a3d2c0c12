import { httpError } from '../http/errors.js'
import { describe, type Handler, type HttpRequest } from '../http/exchange.js'
import { empty, json } from '../http/respond.js'
import { operation, parameter, readOperations, response } from '../openapi/operation.js'
import { errorResponses } from '../openapi/responses.js'
import { NOT_STORED } from '../tasks/http/event-stream.js'
import { array, object, text } from '../tasks/http/formats.js'
import { requireJson } from '../tasks/http/lists.js'
import type { EndpointSettings, OperatorAccess } from '../tasks/http/settings.js'

/** Creates the handler of GET and HEAD of the counts of all pools. */
export function createPools<C>(
  { core }: EndpointSettings<C>, { admit }: OperatorAccess<C>,
): Handler<C> {
  const handler: Handler<C> = async (request) => {
    if (request.method !== 'GET' && request.method !== 'HEAD') return undefined
    await admit(request)
    requireJson(request)
    return json(200, { items: await core.counts() }, NOT_STORED)
  }
  return describe(handler, readOperations({
    summary: 'The pools, with the numbers of their tasks',
    responses: {
      200: response('The pools', { schema: object({ items: array(POOL) }, 'items') }),
      ...errorResponses('not_acceptable', 'store_unavailable'),
    },
  }))
}

/** Creates the handler of PUT (pause) and DELETE (resume) of the pause of a pool. */
export function createPause<C>(
  { core }: EndpointSettings<C>, { admit }: OperatorAccess<C>,
): Handler<C> {
  const handler: Handler<C> = async (request) => {
    const isPaused = request.method === 'PUT'
    if (!isPaused && request.method !== 'DELETE') return undefined
    await admit(request)
    await core.setPaused(poolOf(request, core.settings.pools), isPaused)
    return empty(204)
  }
  const options = {
    parameters: [parameter('query', 'pool', { description: 'Name of the pool', required: true, schema: text })],
    responses: { 204: response('Done'), ...errorResponses('invalid_query', 'store_unavailable') },
  }
  return describe(handler, [
    operation('PUT', { summary: 'Pause a pool: nothing begins in it', ...options }),
    operation('DELETE', { summary: 'Resume a paused pool', ...options }),
  ])
}

/** Returns the pool that the query names. Throws a 400 `invalid_query` if there is none. */
function poolOf<C>({ query }: HttpRequest<C>, pools: ReadonlyMap<string, number>): string {
  const [name, ...others] = query.getAll('pool')
  if (query.size === 1 && name !== undefined && others.length === 0 && pools.has(name)) return name
  throw httpError('invalid_query', { message: '"pool" must be the name of a pool, and the only parameter.' })
}

const count = { type: 'integer', minimum: 0 }

const POOL = object({
  pool: text,
  isPaused: { type: 'boolean', description: 'True if nothing begins in the pool' },
  running: count, waiting: count, delayed: count,
  oldestWaitingMs: { ...count, description: 'Time that the oldest waiting task has waited; absent if none waits' },
}, 'pool', 'isPaused', 'running', 'waiting', 'delayed')
