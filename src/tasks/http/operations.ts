import type { Operation } from '../../http/exchange.js'
import {
  addResponseHeaders, body, type Fragment, header, operation, parameter, response,
} from '../../openapi/operation.js'
import { errorResponses, fields, requestFields } from '../../openapi/responses.js'
import type { AnyTaskDefinition } from '../definition/define.js'
import type { ListedStatus } from '../../engine/engine.js'
import { DEFAULT_LIMIT, MAX_LIMIT } from '../lists.js'
import type { TaskFormat } from './formats.js'
import type { StatusPath } from './status-path.js'

const replayed = fields('Idempotency-Key', 'Idempotent-Replayed')

/** Any object with a message. */
const resultSchema: Fragment = {
  type: 'object', required: ['message'], properties: { message: { type: 'string' } },
}

export function submitOperations(
  format: TaskFormat, definition: AnyTaskDefinition | undefined,
  { always, emptyBody, startAt }: {
    readonly always: boolean, readonly emptyBody: boolean, readonly startAt: boolean,
  },
): readonly Operation[] {
  const accepted = response('Accepted: the work continues in the background', {
    schema: format.schema,
    headers: {
      ...fields('Location', 'Content-Location', 'Retry-After', 'Preference-Applied', 'Vary'),
      ...replayed, ...format.describe?.acceptedFields,
    },
  })
  const done = response('The work is done', {
    schema: definition?.output ?? resultSchema,
    headers: { ...fields('Location', 'Preference-Applied', 'Vary'), ...replayed },
  })
  // A failure after a wait has the Location of its task, and a repeated one says so.
  return [addResponseHeaders(operation('POST', {
    summary: definition ? `Start ${definition.name}` : 'Start a task',
    parameters: [
      requestFields.prefer, requestFields.idempotencyKey, requestFields.contentDigest,
    ],
    requestBody: body(definition?.input ?? {}, { required: !emptyBody }),
    responses: {
      ...(always ? {} : { 200: done }),
      202: accepted,
      ...errorResponses(
        'invalid_input', 'malformed_json', 'digest_mismatch', 'invalid_header', 'missing_body',
        'nested_too_deep',
        'unsafe_key', 'invalid_idempotency_key', 'invalid_callback_url', 'callback_url_forbidden',
        'callback_needs_async', 'idempotent_request_running', 'task_cancelled',
        'gone', 'body_too_large', 'unsupported_media_type',
        'unsupported_content_coding', 'unprocessable', 'unknown_task', 'idempotency_key_reused',
        'too_many_requests', 'too_many_tasks', 'internal_error', 'overloaded', 'queue_full',
        'store_unavailable', 'store_full', 'shutting_down', 'sync_timeout', 'task_timeout',
        ...emptyBody ? ['cross_site'] as const : [],
        ...startAt ? ['invalid_start_at', 'start_at_out_of_range'] as const : [],
      ),
    },
  }), { ...fields('Location', 'Preference-Applied'), ...replayed })]
}

export function statusOperations(
  path: string, format: TaskFormat, remove: 'cancel' | 'forget',
): readonly Operation[] {
  const id = parameter('path', 'id')
  const headers = fields('ETag', 'Retry-After', 'Sunset', 'Cache-Control', 'Vary')
  const applied = { ...headers, ...fields('Preference-Applied') }
  const unbuffered = {
    'X-Accel-Buffering': header('`no` for event streams: proxies are to pass them on as they come'),
  }
  const { result = format.schema, shown: others = {} } = format.describe ?? {}
  const shown: Fragment = response('The task', {
    schema: result, headers: { ...applied, ...unbuffered },
  })
  const content = {
    ...shown['content'] as Fragment, 'text/event-stream': { schema: { type: 'string' } },
  }
  const otherResponses = Object.entries(others).map(([status, each]): [string, Fragment] => [
    status, { headers: applied, ...each },
  ])
  const read = {
    parameters: [
      id, requestFields.prefer, requestFields.ifMatch, requestFields.ifNoneMatch,
      parameter('header', 'Last-Event-ID', {
        description: 'The last server-sent event that the client has',
      }),
    ],
    responses: {
      200: { ...shown, content },
      204: response('An event stream that has nothing more to say', {
        headers: fields('Cache-Control', 'Vary'),
      }),
      304: response('Not changed', { headers: applied }),
      ...Object.fromEntries(otherResponses),
      ...errorResponses(
        format.notFound, 'not_acceptable', 'precondition_failed', 'too_many_requests',
        'store_unavailable',
      ),
    },
  }
  return [
    operation('GET', { summary: 'Show a task', ...read }),
    operation('HEAD', { summary: 'The headers of GET', ...read }),
    operation('DELETE', {
      summary: remove === 'forget' ? 'Cancel a task, or delete a final one' : 'Cancel a task',
      parameters: [id, requestFields.ifMatch],
      responses: {
        200: response('The task, cancelled', { schema: format.schema, headers }),
        ...remove === 'forget' && {
          204: response('The task was final, If-Match had its ETag, and it is deleted'),
        },
        ...errorResponses(
          format.notFound, remove === 'forget' ? 'precondition_required' : 'task_already_final',
          'precondition_failed', 'store_unavailable',
          'idempotency_not_supported',
        ),
      },
    }),
  ].map((each) => ({ ...each, path }))
}

/** Codes of every request that takes no body. */
const CHANGE_FAILURES = [
  'invalid_input', 'malformed_json', 'invalid_header', 'invalid_idempotency_key', 'cross_site',
  'idempotent_request_running', 'body_too_large', 'unsupported_media_type',
  'unsupported_content_coding', 'idempotency_key_reused', 'internal_error', 'store_unavailable',
] as const

const EMPTY_BODY = body(
  { type: 'object', maxProperties: 0 }, { required: false },
)

export function retryOperations(
  { template }: StatusPath, format: TaskFormat,
): readonly Operation[] {
  return [{
    ...operation('POST', {
      summary: 'Run a failed or cancelled task again',
      parameters: [parameter('path', 'id'), requestFields.prefer, requestFields.idempotencyKey],
      requestBody: EMPTY_BODY,
      responses: {
        200: response('The result, if the client waited for it', {
          headers: fields('Location', 'Preference-Applied', 'Vary'),
        }),
        202: response('The task waits for another run', {
          schema: format.schema,
          headers: {
            ...fields(
              'Location', 'Content-Location', 'Retry-After', 'Preference-Applied', 'Vary',
              'Idempotency-Key', 'Idempotent-Replayed',
            ),
            ...format.describe?.acceptedFields,
          },
        }),
        ...errorResponses(
          ...CHANGE_FAILURES, format.notFound, 'task_not_final', 'task_already_completed', 'conflict',
          'gone', 'too_many_tasks', 'queue_full', 'service_unavailable', 'shutting_down',
        ),
      },
    }),
    path: `${template}/retry`,
  }]
}

export function redeliverOperations(
  { template }: StatusPath, format: TaskFormat,
): readonly Operation[] {
  return [{
    ...operation('POST', {
      summary: 'Send the callback of a task again',
      parameters: [parameter('path', 'id'), requestFields.idempotencyKey],
      requestBody: EMPTY_BODY,
      responses: {
        202: response('The callback is being sent', {
          schema: format.schema,
          headers: fields(
            'Location', 'Content-Location', 'Idempotency-Key', 'Idempotent-Replayed',
          ),
        }),
        ...errorResponses(
          ...CHANGE_FAILURES, format.notFound, 'task_not_final', 'no_callback', 'callback_pending',
          'service_unavailable',
        ),
      },
    }),
    path: `${template}/callback`,
  }]
}

export function listOperations(
  format: TaskFormat, statuses: Readonly<Record<string, readonly ListedStatus[]>>, byOwner: boolean,
): readonly Operation[] {
  const parameters = [
    listed('status', 'Only tasks of these statuses', { enum: Object.keys(statuses) }),
    listed('task', 'Only tasks of these kinds of work', { type: 'string' }),
    ...byOwner ? [parameter('query', 'owner', { description: 'Only tasks of this owner' })] : [],
    timeParameter('from', 'Only tasks created at this time or later'),
    timeParameter('to', 'Only tasks created before this time'),
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
      summary: 'The headers of GET', parameters,
      responses: {
        200: response('The headers of the response to GET', { headers }),
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

function listed(name: string, description: string, items: Fragment): Fragment {
  const schema = { type: 'array', items, minItems: 1 }
  return {
    ...parameter('query', name, { description: `${description}, separated by commas`, schema }),
    style: 'form', explode: false,
  }
}

function timeParameter(name: string, description: string): Fragment {
  const schema = { type: 'string', format: 'date-time', examples: ['2026-03-01T09:30:00Z'] }
  return parameter('query', name, { description, schema })
}
