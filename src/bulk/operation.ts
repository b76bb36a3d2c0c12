import type { HttpRequest, Operation } from '../http/exchange.js'
import type { Preferences } from '../http/headers/prefer.js'
import type { ItemSelection } from '../records/report.js'
import { errorResponses, responseHeaders, headerParameters } from '../openapi/responses.js'
import {
  addResponseHeaders, body, operation, parameter, response, schemaObject, type Fragment,
} from '../openapi/operation.js'
import { isArrayIndex } from '../schema/pointer.js'
import { accepted } from '../tasks/http/operations.js'
import { reportSchema } from '../records/http.js'
import { readOnly } from '../records/items.js'
import { mayBePartial } from './handling.js'
import type { BulkSettings } from './options.js'

const onlyParameter = parameter('query', 'only', {
  description: 'Lists only the items that failed', schema: { enum: ['failed'] },
})

export function bulkOperation<T>(settings: BulkSettings<T>, background: boolean): Operation {
  const { kind, method, status, mixedStatus } = settings
  const replayed = background ? ['Idempotency-Key', 'Idempotent-Replayed'] as const : []
  const report = (description: string): Fragment => response(description, {
    schema: reportSchema('index', 'In the order of the request'),
  })
  const isPartial = mayBePartial(settings)
  const mayBeMixed = isPartial && mixedStatus === status
  const described = operation(method, {
    summary: kind === 'create' ? 'Create many records' : 'Change many records',
    description: descriptionOf(settings),
    parameters: [
      onlyParameter, headerParameters.prefer, ...background ? [headerParameters.idempotencyKey] : [],
      headerParameters.contentDigest,
    ],
    requestBody: body(bodySchema(settings)),
    responses: {
      ...isPartial && { [mixedStatus]: report('Some items were applied, others not') },
      [status]: report(mayBeMixed
        ? 'The items were applied; some may not have been'
        : 'All items were applied'),
      ...background && { 202: accepted('Accepted: the batch is written in the background') },
      ...failures(settings, background),
    },
  })
  // An error may contain a report, which obeys Prefer: return=minimal.
  return addResponseHeaders(described, responseHeaders('Preference-Applied', ...replayed))
}

function descriptionOf<T>(settings: BulkSettings<T>): string {
  if (!settings.transaction) return 'Each item is validated and applied separately.'
  const atomic = 'Each item is validated separately; all are applied, or none.'
  if (!mayBePartial(settings)) return atomic
  return `${atomic} With \`Prefer: handling=lenient\` each item is applied separately.`
}

function bodySchema<T>({ path, otherMembers, schema, maxItems }: BulkSettings<T>): Fragment {
  const item = schema ? schemaObject(schema) : { type: 'object' }
  const array: Fragment = { type: 'array', minItems: 1, maxItems, items: item }
  return path.reduceRight((inner, key) => containerSchema(key, inner, otherMembers), array)
}

/** Larger numbers, such as in `/2024/users`, are described as a name, for a short schema. */
const MAX_DESCRIBED_INDEX = 16

function containerSchema(
  key: string, inner: Fragment, otherMembers: 'refuse' | 'ignore',
): Fragment {
  const object = {
    required: [key], properties: { [key]: inner },
    ...otherMembers === 'refuse' && { additionalProperties: false },
  }
  if (!isArrayIndex(key)) return { type: 'object', ...object }
  const index = Number(key)
  const type = ['object', 'array']
  if (index > MAX_DESCRIBED_INDEX) return { type, ...object }
  const before = Array.from({ length: index }, (): Fragment => ({}))
  return { type, ...object, minItems: index + 1, prefixItems: [...before, inner] }
}

function failures<T>(
  { transaction }: BulkSettings<T>, background: boolean,
): Record<string, Fragment> {
  return errorResponses(
    'invalid_input', 'empty_batch', 'malformed_json', 'unsafe_key', 'nested_too_deep',
    'missing_body', 'invalid_query', 'malformed_coding', 'incomplete_body', 'digest_mismatch',
    'invalid_header',
    ...background
      ? ['unauthorized', 'invalid_idempotency_key', 'idempotent_request_running',
        'idempotency_key_reused', 'too_many_bytes', 'store_unavailable', 'store_full'] as const
      : ['idempotency_not_supported'] as const,
    ...transaction ? ['conflict'] as const : [],
    'body_too_large', 'unsupported_media_type', 'unsupported_content_coding', 'batch_failed',
    'write_outcome_unknown', 'internal_error', 'too_many_requests', 'overloaded',
  )
}

/**
 * Returns the items that a request wants listed: `failed` for `?only=failed`, `none` for `Prefer:
 * return=minimal`.
 */
export function selectedItems(
  request: HttpRequest<unknown>, prefer: Preferences,
): ItemSelection {
  const only = readOnly(request, ['failed'])
  return prefer.return === 'minimal' ? 'none' : only ?? 'all'
}
