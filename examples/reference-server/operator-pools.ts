import { json, type Handler, type Tasks } from 'longhaul'
import {
  describe, errorResponses, operation, response, type Fragment,
} from 'longhaul/openapi'
import type { Context } from './auth.js'

const SCHEMA: Fragment = {
  type: 'object',
  required: ['pools'],
  properties: {
    pools: {
      type: 'array',
      items: {
        type: 'object',
        required: ['pool', 'running', 'waiting', 'delayed'],
        properties: {
          pool: { type: 'string' },
          running: { type: 'integer' },
          waiting: { type: 'integer' },
          delayed: { type: 'integer' },
          oldestWaitingMs: { type: 'number', description: 'Absent if no task waits' },
        },
      },
    },
  },
}

/** GET /admin/pools: the work of each pool in all processes, for operators. */
export function operatorPools(tasks: Tasks): Handler<Context> {
  return describe<Context>(
    async () => json(200, { pools: await tasks.pools() }, { 'cache-control': 'no-store' }),
    [operation('GET', {
      summary: 'Numbers of unfinished tasks of each pool, for operators',
      responses: {
        200: response('The pools', { schema: SCHEMA }),
        ...errorResponses('service_unavailable'),
      },
    })],
  )
}
