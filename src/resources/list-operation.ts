import type { Operation } from '../http/exchange.js'
import { errorResponses } from '../openapi/errors.js'
import { fields, requestFields } from '../openapi/fields.js'
import {
  header, operation, parameter, response, schemaObject, type BodySchema, type Fragment,
} from '../openapi/operation.js'
import type { PageSizes } from './page-query.js'

/** Returns the OpenAPI operations of a list. */
export function listOperations(
  { batchSize, maxBatchSize, paging }: PageSizes, item: BodySchema,
): readonly Operation[] {
  const record = schemaObject(item, 'output')
  const byPosition = paging === 'position'
  const count = { type: 'integer', minimum: 0 }
  const page: Fragment = {
    type: 'object',
    required: ['items', 'batch_size'],
    properties: {
      items: { type: 'array', items: record },
      start: { ...count, description: 'The position of the first record' },
      batch_size: { type: 'integer', description: 'How many records a page has at most' },
      total: { ...count, description: 'How many records there are, where that is known' },
      next: { type: 'string', description: 'The path of the next page; absent at the end' },
    },
  }
  const unit = header('The range unit that is understood (RFC 9110 section 14.3)', {
    type: 'string', const: 'items',
  })
  const headers = {
    ...fields('ETag', 'Link', 'Vary', 'Cache-Control'),
    ...byPosition && { 'Accept-Ranges': unit },
  }
  const shown = { schema: page, headers }
  const parameters = [
    parameter('query', 'batch_size', {
      description: `Records of a page; more than ${maxBatchSize} are cut to that`,
      schema: { type: 'integer', minimum: 1, default: batchSize },
    }),
    byPosition
      ? parameter('query', 'start', {
        description: 'The position at which the page starts', schema: { ...count, default: 0 },
      })
      : parameter('query', 'cursor', { description: 'What the `next` of the page before says' }),
    requestFields.ifNoneMatch,
    ...byPosition ? [requestFields.range] : [],
  ]
  const failures = errorResponses('invalid_query', 'not_acceptable', 'precondition_failed')
  const partFields = { ...headers, ...fields('Content-Range') }
  const cached = fields('ETag', 'Cache-Control', 'Vary', 'Link')
  const ranges = byPosition ? fields('Accept-Ranges') : {}
  return [
    operation('GET', {
      summary: 'Read a page', parameters,
      responses: {
        200: { ...response('The page', shown), content: contentOf(page, record) },
        ...byPosition && {
          206: {
            ...response('The records that Range asked for', { headers: partFields }),
            content: contentOf(page, record),
          },
        },
        304: response('Not changed', { headers: { ...cached, ...ranges } }),
        ...failures, ...byPosition && errorResponses('range_not_satisfiable'),
      },
    }),
    operation('HEAD', {
      summary: 'The header fields of GET', parameters,
      responses: { 200: response('As GET would answer', { headers }), ...failures },
    }),
  ]
}

function contentOf(page: Fragment, record: Fragment): Fragment {
  const description = `Each line: ${JSON.stringify(record)}`
  return {
    'application/json': { schema: page },
    'application/x-ndjson': { schema: { type: 'string', description } },
  }
}
