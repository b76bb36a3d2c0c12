import type { Properties } from '../../openapi/fragment.js'
import { body, parameter, response, type Fragment } from '../../openapi/operation.js'
import type { CallbackBody } from '../../wire/task.js'
import { members, object, text, time } from './formats.js'

const signed = (name: string, description: string): Fragment => (
  parameter('header', name, { description, required: true })
)

/**
 * Describes the callback of a task, as the `callbacks` of an operation (OpenAPI 3.1 section 4.8.18).
 * The URL is in a property of the request body.
 */
export function callbackOperations(property: string, result: Fragment): Record<string, Fragment> {
  const pointer = property.replaceAll('~', '~0').replaceAll('/', '~1')
  const message = {
    title: 'Callback message',
    ...object({
      type: { enum: ['task.completed', 'task.failed', 'task.cancelled', 'task.input_required'] },
      timestamp: time,
      data: object({
        taskId: text,
        status: { enum: ['completed', 'failed', 'cancelled', 'input_required'] },
        result,
        inputs: members.inputs,
        error: members.error,
      } satisfies Properties<CallbackBody['data']>, 'taskId', 'status'),
    } satisfies Properties<CallbackBody>, 'type', 'timestamp', 'data'),
  }
  const post = {
    summary: 'The task has ended, or asks',
    description: 'Signed as Standard Webhooks define. Repeated until the receiver responds with 2xx or 410.',
    security: [],
    parameters: [
      signed('webhook-id', 'The same in all attempts'),
      signed('webhook-timestamp', 'Time of the attempt, in seconds since 1970'),
      signed('webhook-signature', 'One signature for each secret, separated by spaces'),
    ],
    requestBody: body(message),
    responses: {
      '2XX': response('The message is processed'),
      '410': response('The receiver wants no further attempts'),
      'default': response('The message is sent again later'),
    },
  }
  return { taskEnded: { [`{$request.body#/${pointer}}`]: { post } } }
}
