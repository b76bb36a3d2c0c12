import type { Operation } from '../../../http/exchange.js'
import { errorResponses, fields, requestFields } from '../../../openapi/responses.js'
import { body, operation, parameter, response } from '../../../openapi/operation.js'
import type { TaskFormat } from '../formats.js'
import type { StatusPath } from '../status-path.js'

/** Codes of every request that takes no body. */
const FAILURES = [
  'invalid_input', 'malformed_json', 'invalid_header', 'invalid_idempotency_key', 'cross_site',
  'idempotent_request_running', 'body_too_large', 'unsupported_media_type',
  'unsupported_content_coding', 'idempotency_key_reused', 'internal_error', 'store_unavailable',
] as const

const REQUEST_BODY = body(
  { type: 'object', maxProperties: 0 }, { required: false },
)

/** Returns the OpenAPI operations of the handler that retries a task. */
export function retryOperations(
  { template }: StatusPath, format: TaskFormat,
): readonly Operation[] {
  return [{
    ...operation('POST', {
      summary: 'Run a failed or cancelled task again',
      parameters: [parameter('path', 'id'), requestFields.prefer, requestFields.idempotencyKey],
      requestBody: REQUEST_BODY,
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
          ...FAILURES, format.notFound, 'task_not_final', 'task_already_completed', 'conflict',
          'gone', 'too_many_tasks', 'queue_full', 'service_unavailable', 'shutting_down',
        ),
      },
    }),
    path: `${template}/retry`,
  }]
}

/** Returns the OpenAPI operations of the handler that sends a callback again. */
export function redeliverOperations(
  { template }: StatusPath, format: TaskFormat,
): readonly Operation[] {
  return [{
    ...operation('POST', {
      summary: 'Send the callback of a task again',
      parameters: [parameter('path', 'id'), requestFields.idempotencyKey],
      requestBody: REQUEST_BODY,
      responses: {
        202: response('The callback is being sent', {
          schema: format.schema,
          headers: fields(
            'Location', 'Content-Location', 'Idempotency-Key', 'Idempotent-Replayed',
          ),
        }),
        ...errorResponses(
          ...FAILURES, format.notFound, 'task_not_final', 'no_callback', 'callback_pending',
          'service_unavailable',
        ),
      },
    }),
    path: `${template}/callback`,
  }]
}
