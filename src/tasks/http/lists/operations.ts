import type { Operation } from '../../../http/exchange.js'
import { errorResponses, fields, requestFields } from '../../../openapi/responses.js'
import { operation, parameter, response, type Fragment } from '../../../openapi/operation.js'
import { DEFAULT_LIMIT, MAX_LIMIT } from '../../list-options.js'
import type { TaskFormat } from '../formats.js'
import type { QueryRules } from './query.js'

/** Returns the OpenAPI operations of a list of tasks. */
export function listOperations(
  format: TaskFormat, { statuses, byOwner }: QueryRules,
): readonly Operation[] {
  const parameters = [
    listed('status', 'Only tasks of these statuses', { enum: Object.keys(statuses) }),
    listed('task', 'Only tasks of these kinds of work', { type: 'string' }),
    ...byOwner ? [parameter('query', 'owner', { description: 'Only tasks of this owner' })] : [],
    time('from', 'Only tasks created at this time or later'),
    time('to', 'Only tasks created before this time'),
    parameter('query', 'order', {
      description: 'The order of creation', schema: { enum: ['newest', 'oldest'], default: 'newest' },
    }),
    parameter('query', 'limit', {
      description: `Maximum number of tasks of a page; more than ${MAX_LIMIT} are cut to that`,
      schema: { type: 'integer', minimum: 1, default: DEFAULT_LIMIT },
    }),
    parameter('query', 'cursor', {
      description: 'The position of a page, from `next` or Link of the page before',
    }),
    requestFields.ifNoneMatch,
  ]
  const headers = fields('ETag', 'Link', 'Cache-Control', 'Vary')
  const failures = errorResponses(
    'invalid_query', 'invalid_cursor', 'unauthorized', 'not_acceptable', 'precondition_failed',
    'store_unavailable',
  )
  const whose = byOwner ? 'the tasks of all owners' : 'own tasks'
  const shown = { headers, schema: pageSchema(format, byOwner) }
  return [
    operation('GET', {
      summary: `List ${whose}`, parameters,
      responses: {
        200: response('A page of tasks', shown),
        304: response('Not changed', { headers }),
        ...failures,
      },
    }),
    operation('HEAD', {
      summary: 'The header fields of GET', parameters,
      responses: {
        200: response('As GET would answer', { headers }),
        304: response('Not changed', { headers }),
        ...failures,
      },
    }),
  ]
}

function pageSchema({ schema }: TaskFormat, byOwner: boolean): Fragment {
  const owner = { type: 'object', properties: { owner: { type: 'string' } } }
  return {
    type: 'object',
    required: ['items'],
    properties: {
      items: { type: 'array', items: byOwner ? { allOf: [owner, schema] } : schema },
      next: { type: 'string', description: 'The path of the next page; absent on the last one' },
    },
  }
}

/** A parameter of several values, separated by commas. */
function listed(name: string, description: string, items: Fragment): Fragment {
  const schema = { type: 'array', items, minItems: 1 }
  return {
    ...parameter('query', name, { description: `${description}, separated by commas`, schema }),
    style: 'form', explode: false,
  }
}

function time(name: string, description: string): Fragment {
  const schema = { type: 'string', format: 'date-time', examples: ['2026-03-01T09:30:00Z'] }
  return parameter('query', name, { description, schema })
}
