import type { Operation } from '../../http/exchange.js'
import {
  addResponseHeaders, body, type Fragment, header, operation, parameter, response,
} from '../../openapi/operation.js'
import { errorResponses, fields, requestFields } from '../../openapi/responses.js'
import type { AnyTaskDefinition } from '../definition/define.js'
import type { TaskFormat } from './formats.js'

const replayed = fields('Idempotency-Key', 'Idempotent-Replayed')

/** Any object with a message (SPEC 2.5). */
const resultSchema: Fragment = {
  type: 'object', required: ['message'], properties: { message: { type: 'string' } },
}

/** Returns the OpenAPI operations of a handler that submits tasks. */
export function submitOperations(
  format: TaskFormat, definition: AnyTaskDefinition | undefined,
  { always, emptyBody, startAt }: {
    readonly always: boolean, readonly emptyBody: boolean, readonly startAt: boolean,
  },
): readonly Operation[] {
  const accepted = response('Accepted: the work goes on in the background', {
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

/** Returns the OpenAPI operations of the status resource. */
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
    operation('HEAD', { summary: 'The header fields of GET', ...read }),
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
