import type { Operation } from '../http/exchange.js'
import { toJsonSchema } from '../schema/index.js'
import type { AnyTaskDefinition } from './define.js'
import type { Face } from './faces.js'

type Fragment = Readonly<Record<string, unknown>>

const errorSchema: Fragment = {
  type: 'object',
  required: ['error', 'code'],
  properties: {
    error: { type: 'string' },
    code: { type: 'string' },
    details: {
      type: 'array',
      items: { type: 'object', required: ['pointer', 'message'], properties: { pointer: { type: 'string' }, message: { type: 'string' } } },
    },
  },
}

const problemSchema: Fragment = {
  ...errorSchema,
  required: ['error', 'code', 'status', 'title', 'detail'],
  properties: { ...(errorSchema['properties'] as Fragment), status: { type: 'integer' }, title: { type: 'string' }, detail: { type: 'string' } },
}

function failure(description: string): Fragment {
  return {
    description,
    content: { 'application/json': { schema: errorSchema }, 'application/problem+json': { schema: problemSchema } },
  }
}

function header(description: string): Fragment {
  return { description, schema: { type: 'string' } }
}

function headerParameter(name: string, description: string): Fragment {
  return { name, in: 'header', required: false, description, schema: { type: 'string' } }
}

function shown(description: string, face: Face, headers: Fragment, more: Fragment = {}): Fragment {
  return { description, headers, content: { 'application/json': { schema: face.schema }, ...more } }
}

const statusHeaders: Fragment = {
  'ETag': header('Changes with the task'),
  'Retry-After': header('Seconds until the next poll, while the task has not ended'),
  'Sunset': header('When the task is forgotten'),
  'Cache-Control': header('private, no-cache'),
  'Vary': header('Prefer, Accept, Authorization'),
}

const resultSchema: Fragment = { type: 'object', required: ['message'], properties: { message: { type: 'string' } } }

/** What the handler that takes work in says of itself. */
export function submitOperations(face: Face, always: boolean, definition: AnyTaskDefinition | undefined): readonly Operation[] {
  const input = (definition?.input && toJsonSchema(definition.input)) ?? {}
  const output = (definition?.output && toJsonSchema(definition.output)) ?? resultSchema
  const responses: Record<string, unknown> = {
    202: shown('Accepted; the work goes on in the background', face, {
      'Location': header('The status resource'),
      'Content-Location': header('The status resource, whose representation this body is'),
      'Retry-After': header('Seconds until the first poll'),
      'Preference-Applied': header('The preferences that were honoured'),
      'Idempotent-Replayed': header('true when an earlier request with this Idempotency-Key was answered'),
      'Vary': header('Prefer'),
    }),
    400: failure('The body or a header field is not valid'),
    409: failure('A request with this Idempotency-Key is still running, or the task was cancelled'),
    410: failure('The task that this Idempotency-Key started is no longer kept'),
    413: failure('The body is too large'),
    415: failure('The media type or coding of the body is not supported'),
    422: failure('A business rule refuses it, or the Idempotency-Key was used with another body'),
    429: failure('Too many unfinished tasks'),
    500: failure('Something went wrong'),
    503: failure('No room, no store, or the work took too long for a direct answer'),
  }
  if (!always) {
    responses[200] = {
      description: 'The work is done',
      headers: { 'Vary': header('Prefer'), 'Preference-Applied': header('wait=N, when the work ended within it') },
      content: { 'application/json': { schema: output } },
    }
    responses[504] = failure('The task took longer than it may')
  }
  return [{
    method: 'POST',
    openapi: {
      summary: definition ? `Start ${definition.name}` : 'Start a task',
      parameters: [
        headerParameter('Prefer', 'respond-async for a 202 at once; with wait=N, the result if it is there within N seconds (RFC 7240)'),
        headerParameter('Idempotency-Key', 'Makes retries of this request start the work once'),
      ],
      requestBody: { content: { 'application/json': { schema: input } } },
      responses,
    },
  }]
}

/** What the status resource says of itself. */
export function statusOperations(path: string, face: Face): readonly Operation[] {
  const id = { name: 'id', in: 'path', required: true, schema: { type: 'string' } }
  const missing = failure('Unknown, expired, or not yours')
  const unavailable = failure('The store can not be reached')
  const read = {
    parameters: [
      id,
      headerParameter('Prefer', 'wait=N: answer when the task has ended (with If-None-Match: has changed), after N seconds at the latest'),
      headerParameter('If-None-Match', 'Entity tags that the client has'),
      headerParameter('Last-Event-ID', 'The last event that the client has'),
    ],
    responses: {
      200: shown('The task', face, { ...statusHeaders, 'Preference-Applied': header('wait=N') }, { 'text/event-stream': { schema: { type: 'string' } } }),
      204: { description: 'An event stream that has nothing more to say' },
      304: { description: 'Not changed', headers: statusHeaders },
      404: missing,
      503: unavailable,
    },
  }
  return [
    { method: 'GET', path, openapi: { summary: 'Show a task', ...read } },
    { method: 'HEAD', path, openapi: { summary: 'The header fields of GET', ...read } },
    {
      method: 'DELETE',
      path,
      openapi: {
        summary: 'Cancel a task',
        parameters: [id],
        responses: {
          200: shown('The task, cancelled', face, statusHeaders),
          404: missing,
          409: failure('The task has already ended'),
          503: unavailable,
        },
      },
    },
  ]
}
