import type { ErrorCode } from '../../http/errors.js'
import type { Operation } from '../../http/exchange.js'
import {
  addResponseHeaders, addResponses, body, operation, parameter, readOperations, response,
  schemaObject, type Fragment, type OperationOptions,
} from '../../openapi/operation.js'
import type { Properties } from '../../openapi/fragment.js'
import type { CursorPage } from '../../wire/pages.js'
import { notModified } from '../../openapi/errors.js'
import { errorResponses, responseHeaders, headerParameters } from '../../openapi/responses.js'
import { MAX_QUESTIONS } from '../definition/asks.js'
import type { AnyTaskDefinition } from '../definition/define.js'
import { DEFAULT_LIMIT, MAX_LIMIT } from '../lists.js'
import { callbackOperations } from './callback-operations.js'
import {
  array, members, object, TASK_STATUSES, taskFormat, text, time, type TaskFormat,
} from './formats.js'
import type { StatusPath } from './status-path.js'

const { prefer, idempotencyKey, contentDigest, ifMatch, ifNoneMatch } = headerParameters
const replayed = responseHeaders('Idempotency-Key', 'Idempotent-Replayed')
const id = parameter('path', 'id')

const POST_FAILURES = [
  'invalid_input', 'malformed_json', 'unsafe_key', 'nested_too_deep', 'inexact_value', 'digest_mismatch',
  'invalid_header', 'invalid_idempotency_key', 'idempotent_request_running', 'body_too_large',
  'unsupported_media_type', 'unsupported_content_coding', 'idempotency_key_reused',
  'internal_error', 'store_unavailable',
] as const

/** Adds the 401 of endpoints for which each request needs an owner. */
export function withOwner(
  { needsOwner }: { readonly needsOwner: boolean }, operations: readonly Operation[],
): readonly Operation[] {
  if (!needsOwner) return operations
  return operations.map((each) => addResponses(each, errorResponses('unauthorized')))
}

interface SubmitDescription {
  /** `true`: the response is never the result. */
  readonly always: boolean
  readonly emptyBody: boolean
  readonly startAt: boolean
  /**
   * Absent if a client cannot name a callback URL. `property` is the property of the body with the
   * URL, if it is known.
   */
  readonly callback: { readonly property?: string } | undefined
}

export function submitOperations(
  format: TaskFormat, definition: AnyTaskDefinition | undefined,
  { always, emptyBody, startAt, callback }: SubmitDescription,
): readonly Operation[] {
  const result = definition?.output && schemaObject(definition.output, 'output')
  const done = response('The work is done', {
    schema: result ?? members.result,
    headers: { ...responseHeaders('Location', 'Preference-Applied'), ...replayed },
  })
  return [addResponseHeaders(operation('POST', {
    summary: definition ? `Start ${definition.name}` : 'Start a task',
    parameters: [prefer, idempotencyKey, contentDigest],
    requestBody: body(definition?.input ?? {}, { required: !emptyBody }),
    responses: {
      ...!always && { 200: done },
      202: accepted(
        'Accepted: the work continues in the background',
        always && result ? withResult(format, result) : format,
      ),
      ...errorResponses(
        ...POST_FAILURES, 'unprocessable', 'too_many_requests', 'too_many_tasks', 'overloaded',
        'queue_full', 'store_full', 'shutting_down',
        ...definition ? [] : ['unknown_task'] as const,
        ...emptyBody ? ['cross_site'] as const : ['missing_body'] as const,
        ...startAt ? ['invalid_start_at', 'start_at_out_of_range', 'gone'] as const : [],
        ...callback ? ['invalid_callback_url', 'callback_url_forbidden'] as const : [],
        ...always ? [] : ['gone', 'task_cancelled', 'sync_timeout', 'task_timeout'] as const,
        ...callback && !always ? ['callback_needs_async'] as const : [],
      ),
    },
    ...callback?.property !== undefined && {
      callbacks: callbackOperations(callback.property, result ?? members.result),
    },
  }), { ...responseHeaders('Location', 'Preference-Applied'), ...replayed })]
}

/** Describes the result of a task in its format, for endpoints that never respond with it directly. */
function withResult(format: TaskFormat, result: Fragment): TaskFormat {
  const { properties = {} } = format.schema as { readonly properties?: Fragment }
  if (!('result' in properties)) return format
  return { ...format, schema: { allOf: [format.schema, object({ result })] } }
}

/** Describes the 202 of a request that becomes a task. */
export function accepted(
  description: string, { schema, describe }: TaskFormat = taskFormat,
): Fragment {
  return response(description, {
    schema,
    headers: {
      ...responseHeaders('Location', 'Content-Location', 'Retry-After', 'Preference-Applied'),
      ...replayed, ...describe?.acceptedHeaders,
    },
  })
}

export function statusOperations(
  path: string, { schema, notFound, describe = {} }: TaskFormat, remove: 'cancel' | 'forget',
): readonly Operation[] {
  const headers = responseHeaders('ETag', 'Retry-After', 'Sunset')
  const applied = { ...headers, ...responseHeaders('Preference-Applied') }
  const shown = response('The task', {
    schema: describe.result ?? schema,
    headers: applied,
  })
  const content = { ...shown['content'] as Fragment, 'text/event-stream': { schema: text } }
  const others = Object.entries(describe.shown ?? {})
    .map(([status, each]) => [status, { headers: applied, ...each }] as const)
  const lastId = { description: 'The last server-sent event that the client has' }
  const ended = 'An event stream that has nothing more to say'
  const forgets = remove === 'forget'
  return [
    ...readOperations({
      summary: 'Show a task',
      parameters: [id, prefer, ifMatch, ifNoneMatch, parameter('header', 'Last-Event-ID', lastId)],
      responses: {
        200: { ...shown, content },
        204: response(ended),
        304: notModified,
        ...Object.fromEntries(others),
        ...errorResponses(
          notFound, 'not_acceptable', 'precondition_failed', 'too_many_requests', 'store_unavailable',
        ),
      },
    }),
    operation('DELETE', {
      summary: forgets ? 'Cancel a task, or delete a final one' : 'Cancel a task',
      parameters: [id, ifMatch],
      responses: {
        200: response('The task, cancelled', { schema, headers: responseHeaders('ETag', 'Sunset') }),
        ...forgets && { 204: response('The task was final, If-Match had its ETag, and it is deleted') },
        ...errorResponses(
          notFound, forgets ? 'precondition_required' : 'task_already_final',
          'precondition_failed', 'store_unavailable', 'idempotency_not_supported',
        ),
      },
    }),
  ].map((each) => ({ ...each, path }))
}

export function retryOperations(path: StatusPath, format: TaskFormat): readonly Operation[] {
  return postBelow(path, 'retry', {
    summary: 'Run a failed or cancelled task again',
    parameters: [id, prefer, idempotencyKey],
    responses: {
      200: response('The result, if the client waited for it', { schema: members.result }),
      202: accepted('The task waits for another run', format),
    },
  }, [
    format.notFound, 'task_already_completed', 'conflict', 'gone', 'too_many_tasks', 'queue_full',
    'shutting_down', 'unprocessable', 'task_cancelled', 'sync_timeout', 'task_timeout',
  ]).map((each) => addResponseHeaders(each, responseHeaders('Location', 'Preference-Applied')))
}

export function redeliverOperations(
  path: StatusPath, { schema, notFound }: TaskFormat,
): readonly Operation[] {
  return postBelow(path, 'callback', {
    summary: 'Send the callback of a task again',
    parameters: [id, idempotencyKey],
    responses: {
      202: response('The callback is being sent', {
        schema, headers: responseHeaders('Location', 'Content-Location'),
      }),
    },
  }, [notFound, 'no_callback', 'callback_pending'])
}

export function inputOperations(path: StatusPath, { schema, notFound }: TaskFormat): readonly Operation[] {
  const answers = {
    type: 'object', minProperties: 1, maxProperties: MAX_QUESTIONS,
    description: 'Answers by the keys of `inputs` of the task. Each has the schema of its question.',
  }
  return [{
    ...operation('POST', {
      summary: 'Answer the questions of a task',
      parameters: [id],
      requestBody: body(answers),
      responses: {
        200: response('The answers are stored, now or by an earlier request', {
          schema, headers: responseHeaders('Content-Location', 'ETag', 'Retry-After', 'Sunset'),
        }),
        ...errorResponses(
          'invalid_input', 'malformed_json', 'unsafe_key', 'nested_too_deep', 'missing_body', 'digest_mismatch',
          'invalid_header', 'inexact_value', notFound, 'already_answered', 'input_timed_out',
          'task_already_final', 'conflict', 'body_too_large', 'unsupported_media_type',
          'unsupported_content_coding', 'unknown_input', 'internal_error', 'service_unavailable',
          'store_unavailable',
        ),
      },
    }),
    path: `${path.template}/input`,
  }]
}

function postBelow(
  { template }: StatusPath, below: string, options: OperationOptions, codes: readonly ErrorCode[],
): readonly Operation[] {
  const failures = errorResponses(
    ...POST_FAILURES, 'cross_site', 'task_not_final', 'service_unavailable', ...codes,
  )
  const responses = { ...options.responses, ...failures }
  const requestBody = body({ type: 'object', maxProperties: 0 }, { required: false })
  const described = operation('POST', { ...options, requestBody, responses })
  return [{
    ...addResponseHeaders(described, replayed), path: `${template}/${below}`,
  }]
}

export function listOperations(
  { schema, statuses = TASK_STATUSES }: TaskFormat, forOperators: boolean,
): readonly Operation[] {
  const query = (name: string, description: string, schema: Fragment = text) => (
    parameter('query', name, { description, schema })
  )
  const several = (name: string, description: string, item: Fragment) => ({
    ...query(name, description, { ...array(item), minItems: 1 }), style: 'form', explode: false,
  })
  const timestamp = { ...time, examples: ['2026-03-01T09:30:00Z'] }
  const headers = responseHeaders('ETag', 'Link')
  const page = {
    title: typeof schema['title'] === 'string' ? `${schema['title']} page` : 'Task page',
    ...object({
      items: array(schema),
      next: { ...text, description: 'The path of the next page; absent on the last one' },
    } satisfies Properties<CursorPage<unknown>>, 'items'),
  }
  return readOperations({
    summary: forOperators ? 'List the tasks of all owners' : 'List own tasks',
    parameters: [
      several('status', 'Only tasks of these statuses, separated by commas', {
        enum: Object.keys(statuses),
      }),
      several('task', 'Only tasks of these kinds of work, separated by commas', text),
      ...forOperators ? [
        query('owner', 'Only tasks of this owner; without `tenant`, of an owner in no tenant'),
        query('tenant', 'Only tasks of this tenant'),
      ] : [],
      query('from', 'Only tasks created at this time or later', timestamp),
      query('to', 'Only tasks created before this time', timestamp),
      query('order', 'The order of creation', { enum: ['newest', 'oldest'], default: 'newest' }),
      query('limit', `Maximum number of tasks of a page; more than ${MAX_LIMIT} are cut to that`, {
        type: 'integer', minimum: 1, default: DEFAULT_LIMIT,
      }),
      query('cursor', 'The position of a page, from `next` or Link of the page before'),
      ifNoneMatch,
    ],
    responses: {
      200: response('A page of tasks', { headers, schema: page }),
      304: notModified,
      ...errorResponses(
        'invalid_query', 'invalid_cursor', 'unauthorized', 'not_acceptable', 'precondition_failed',
        'store_unavailable',
      ),
    },
  })
}
