import type { Operation } from '../../../http/exchange.js'
import { errorResponses, fields } from '../../../openapi/responses.js'
import { operation, response, type Fragment } from '../../../openapi/operation.js'
import { LISTED_STATUSES } from '../../../engine/engine.js'
import { members, text, time } from '../formats.js'

const task = {
  type: 'object',
  required: ['taskId', 'task', 'createdAt'],
  properties: {
    owner: text, taskId: text, task: members.task, createdAt: time, callback: members.callback,
  },
} satisfies Fragment

const count: Fragment = {
  type: 'object',
  required: ['count', 'more'],
  properties: {
    count: { type: 'integer', minimum: 0, maximum: 1000 },
    more: { type: 'boolean', description: 'True if there are more' },
  },
}

const schema: Fragment = {
  type: 'object',
  required: ['counts', 'callbacks'],
  properties: {
    counts: {
      type: 'object',
      required: LISTED_STATUSES,
      properties: Object.fromEntries(LISTED_STATUSES.map((status) => [status, count])),
    },
    oldestQueued: {
      ...task,
      required: [...task.required, 'pool'],
      properties: { ...task.properties, pool: text },
      description: 'The task that has waited longest; absent if none waits',
    },
    callbacks: {
      type: 'object',
      required: ['examined', 'failed'],
      properties: {
        examined: { type: 'integer', description: 'The number of newest final tasks that were read' },
        failed: {
          type: 'array', items: task, description: 'Those of them whose callback has failed',
        },
      },
    },
  },
}

/** Returns the OpenAPI operations of the operators' overview. */
export function overviewOperations(): readonly Operation[] {
  const headers = fields('Cache-Control', 'Vary')
  const failures = errorResponses('not_acceptable', 'store_unavailable')
  return [
    operation('GET', {
      summary: 'Counts of tasks, the oldest waiting one, and failed callbacks',
      responses: { 200: response('The overview', { schema, headers }), ...failures },
    }),
    operation('HEAD', {
      summary: 'The header fields of GET',
      responses: { 200: response('As GET would answer', { headers }), ...failures },
    }),
  ]
}
