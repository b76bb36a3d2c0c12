import type { Operation } from '../http/exchange.js'
import { errorResponses, fields, requestFields } from '../openapi/responses.js'
import {
  addResponseHeaders, body, type Fragment, operation, response, schemaObject,
} from '../openapi/operation.js'
import type { Schema } from '../schema/schema.js'
import { taskFormat } from '../tasks/http/formats.js'
import { NDJSON_TYPE } from './media-type.js'

const count: Fragment = { type: 'integer', minimum: 0 }
const text: Fragment = { type: 'string' }

/** JSON Schema of the answer to an upload. */
export const uploadResultSchema: Fragment = {
  type: 'object',
  required: ['message', 'summary', 'errors'],
  properties: {
    message: text,
    summary: {
      type: 'object',
      required: ['total', 'succeeded', 'failed'],
      properties: { total: count, succeeded: count, failed: count },
    },
    errors: {
      type: 'array',
      description: 'The first ones, by line',
      items: {
        type: 'object',
        required: ['line', 'code', 'message', 'excerpt'],
        properties: {
          line: { type: 'integer', minimum: 1 }, code: text, message: text, excerpt: text,
          details: {
            type: 'array',
            items: { type: 'object', properties: { pointer: text, message: text } },
          },
        },
      },
    },
  },
}

/** Header fields of answers to requests with an Idempotency-Key. */
const OF_KEY = fields('Idempotency-Key', 'Idempotent-Replayed', 'Retry-After')

/** Errors of requests with an Idempotency-Key, and of uploads that are read in the background. */
const OF_BACKGROUND = [
  'idempotency_needs_async', 'invalid_idempotency_key', 'idempotent_request_running',
  'idempotency_key_reused', 'too_many_bytes',
] as const

/** Returns the OpenAPI operation of an upload handler. */
export function uploadOperation(schema: Schema | undefined, background: boolean): Operation {
  const line = JSON.stringify(schema ? schemaObject(schema) : { type: 'object' })
  const done = response('All lines were read; some may have failed', {
    schema: uploadResultSchema, headers: fields('Vary'),
  })
  const lines: Fragment = {
    type: 'string',
    description: 'A line for each record, `{ line, status, id?, error? }`, and at last '
      + '`{ message, summary }`',
  }
  const described = operation('POST', {
    summary: 'Upload records as NDJSON',
    description: 'One JSON object a line; a line that is none is skipped and counted. '
      + 'The body may be coded (Content-Encoding).',
    parameters: [
      ...background ? [requestFields.prefer, requestFields.idempotencyKey] : [],
      requestFields.contentDigest,
    ],
    requestBody: body(
      { type: 'string', description: `Each line: ${line}` }, { mediaTypes: [NDJSON_TYPE] },
    ),
    responses: {
      200: {
        ...done, content: { ...(done['content'] as Fragment), [NDJSON_TYPE]: { schema: lines } },
      },
      ...background && {
        202: response('Accepted: the upload is read in the background', {
          schema: taskFormat.schema,
          headers: fields(
            'Location', 'Content-Location', 'Retry-After', 'Preference-Applied', 'Vary',
          ),
        }),
      },
      ...errorResponses(
        'incomplete_body', 'digest_mismatch', 'invalid_header', 'malformed_coding',
        ...background ? OF_BACKGROUND : ['idempotency_not_supported'] as const,
        'body_too_large', 'unsupported_media_type', 'unsupported_content_coding', 'internal_error',
        'store_unavailable', 'store_full',
      ),
    },
  })
  return background ? addResponseHeaders(described, OF_KEY) : described
}
