import type { Operation } from '../http/exchange.js'
import {
  body, operation, parameter, response, schemaObject, type Fragment,
} from '../openapi/operation.js'
import { errorResponses } from '../openapi/errors.js'
import { fields, requestFields } from '../openapi/fields.js'
import { taskFormat } from '../tasks/http/formats.js'
import type { Plan } from './plan.js'

const count: Fragment = { type: 'integer', minimum: 0 }
const text: Fragment = { type: 'string' }

/** The schema of one item of a report. */
export const itemSchema: Fragment = {
  type: 'object',
  required: ['index', 'status'],
  properties: {
    index: count,
    status: { type: 'integer', description: 'An HTTP status for this item' },
    id: { type: ['string', 'integer'] },
    error: {
      type: 'object',
      required: ['code'],
      properties: { code: text, message: text, details: { type: 'array', items: { type: 'object', properties: { pointer: text, message: text } } } },
    },
  },
}

/** The schema of a report. */
export const reportSchema: Fragment = {
  type: 'object',
  required: ['summary'],
  properties: {
    summary: { type: 'object', required: ['total', 'succeeded', 'failed'], properties: { total: count, succeeded: count, failed: count } },
    items: { type: 'array', items: itemSchema, description: 'In the order of the request' },
  },
}

/** Which items are shown. */
export const onlyParameter = parameter('query', 'only', { description: 'Leaves out the items that went well', schema: { enum: ['failed'] } })

/** What a bulk handler says of itself. */
export function bulkOperation<T>(plan: Plan<T>, background: boolean): Operation {
  const { kind, method, status, member, schema, maxItems, mixedStatus, transaction } = plan
  const items: Fragment = { type: 'array', minItems: 1, maxItems, items: schema ? schemaObject(schema) : { type: 'object' } }
  const replayed = background ? ['Idempotent-Replayed'] as const : []
  const answer = (what: string): Fragment => response(what, { schema: reportSchema, headers: fields('Vary', 'Preference-Applied', ...replayed) })
  const refused = errorResponses(
    'invalid_input', 'empty_batch', 'malformed_json', 'unsafe_key', 'nested_too_deep', 'missing_body', 'invalid_query', 'malformed_coding', 'incomplete_body', 'digest_mismatch',
    ...background ? ['idempotency_needs_async', 'invalid_idempotency_key', 'idempotent_request_running', 'store_unavailable', 'store_full'] as const : [],
    ...transaction ? ['conflict'] as const : [], 'body_too_large', 'unsupported_media_type', 'unsupported_content_coding', 'batch_failed',
    'write_outcome_unknown', 'internal_error',
  )
  // A report may come with them, and then it is as short as was asked for.
  for (const [code, told] of Object.entries(refused)) {
    refused[code] = { ...told, headers: { ...told['headers'] as Fragment, ...fields('Preference-Applied', ...replayed) } }
  }
  return operation(method, {
    summary: kind === 'create' ? 'Create many records' : 'Change many records',
    description: transaction ? 'Each item is judged on its own; all are applied, or none.' : 'Each item is judged and applied on its own.',
    parameters: [onlyParameter, requestFields.prefer, ...background ? [requestFields.idempotencyKey] : []],
    requestBody: body(member === undefined ? items : { type: 'object', required: [member], properties: { [member]: items } }),
    responses: {
      ...!transaction && { [mixedStatus]: answer('Some items were applied, others not') },
      [status]: answer(!transaction && mixedStatus === status ? 'The items were applied; some may not have been' : 'All items were applied'),
      ...background && {
        202: response('Accepted: the batch is done in the background', {
          schema: taskFormat.schema, headers: fields('Location', 'Content-Location', 'Retry-After', 'Preference-Applied', 'Vary', ...replayed),
        }),
      },
      ...refused,
    },
  })
}
