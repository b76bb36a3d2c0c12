import { createHash } from 'node:crypto'
import { content } from '../content/content.js'
import type { ContentSource } from '../content/source.js'
import { isFinalStatus } from '../engine/task.js'
import { httpError } from '../http/errors.js'
import { describe, type Handler, type HttpRequest } from '../http/exchange.js'
import { NDJSON_TYPE } from '../http/headers/ndjson-types.js'
import { errorResponses, responseHeaders, headerParameters } from '../openapi/responses.js'
import { operation, parameter, response } from '../openapi/operation.js'
import { hasMethod, readOptions, value, type OptionTable } from '../runtime/options.js'
import { bytesBetween } from '../runtime/text.js'
import type { Blobs } from '../stores/blobs.js'
import { partBytes, partKeys, readParts, type PartList } from '../stores/parts.js'
import type { TaskEndpoints } from '../tasks/http/endpoints.js'
import { detailsOf } from '../tasks/record/details.js'
import type { ReportItem } from '../wire/report.js'
import { itemSchema } from './http.js'
import { linesOf, reportGone } from './stored-report.js'
import { findTail } from './tails.js'

/** Options of `bulkItems` and `uploadItems`. */
export interface RecordItemsOptions<C> {
  /** The endpoints that accept the requests. */
  readonly endpoints: TaskEndpoints<C>
  /** The blobs of the tasks. */
  readonly blobs: Blobs
}

const ITEMS = {
  endpoints: value('what taskEndpoints returned', hasMethod('find'), { required: true }),
  blobs: value('the blobs of the task', hasMethod('open'), { required: true }),
} satisfies OptionTable<RecordItemsOptions<never>>

/** First parts of the keys of bodies whose tasks may have items. */
const BODIES = ['bulk-', 'ndjson-upload/']

/** Creates the handler of `{status}/items` for the tasks of bulk requests and of uploads. */
export function recordItems<C>(
  where: string, options: RecordItemsOptions<C>, numbers: 'index' | 'line',
): Handler<C> {
  const { endpoints, blobs } = readOptions(where, options, ITEMS)
  const serve = content<C>((request) => findReport(endpoints, blobs, request))
  const items = response('The items, one on each line', {
    schema: { type: 'string', description: `Each line: ${JSON.stringify(itemSchema(numbers))}` },
    mediaTypes: [NDJSON_TYPE],
    headers: responseHeaders('ETag', 'Accept-Ranges'),
  })
  return describe(serve, [operation('GET', {
    summary: 'Read the items of work that was done in the background',
    parameters: [parameter('path', 'id'), onlyItems, headerParameters.range],
    responses: {
      200: items,
      206: { ...items, description: 'A part of the items' },
      ...errorResponses(
        'invalid_query', 'task_not_found', 'not_found', 'not_acceptable', 'task_not_final',
        'range_not_satisfiable',
      ),
    },
  })])
}

async function findReport<C>(
  endpoints: TaskEndpoints<C>, blobs: Blobs, request: HttpRequest<C>,
): Promise<ContentSource | undefined> {
  const only = readOnly(request, ['failed', 'succeeded'])
  const task = await endpoints.find(request, '/items')
  if (task === undefined) return undefined
  const { status, attempt } = task
  if (!isFinalStatus(status)) throw httpError('task_not_final', { headers: { 'retry-after': '1' } })
  const { external = '', parts = [] } = detailsOf(task)
  if (!BODIES.some((prefix) => external.startsWith(prefix))) throw httpError('not_found')
  const tail = status === 'completed' ? [] : await findTail(blobs, external, parts, attempt)
  return reportSource(blobs, external, [...parts, ...tail], only)
}

type Only = 'failed' | 'succeeded' | undefined

async function reportSource(
  blobs: Blobs, blob: string, list: PartList, only: Only,
): Promise<ContentSource> {
  const keys = partKeys(blob, list)
  // The parts expire in their order.
  if (keys[0] === undefined || await blobs.stat(keys[0]) === undefined) throw httpError('not_found')
  const read = (start?: number) => readParts(blobs, keys, reportGone, start)
  const selected = () => selectedLines(read(), only)
  const version = createHash('sha256').update(JSON.stringify([blob, list, only]))
  return {
    type: NDJSON_TYPE, etag: `"${version.digest('base64url')}"`,
    size: only ? await sizeOf(selected()) : partBytes(list),
    open: (start, end) => (
      only ? bytesBetween(selected(), start, end) : bytesBetween(read(start), 0, end - start)
    ),
  }
}

async function sizeOf(source: AsyncIterable<Uint8Array>): Promise<number> {
  let size = 0
  for await (const piece of source) size += piece.byteLength
  return size
}

async function* selectedLines(
  report: AsyncIterable<Uint8Array>, only: Only,
): AsyncGenerator<Uint8Array, void, undefined> {
  for await (const lines of linesOf(report)) {
    const selected = lines.filter((line) => (
      ((JSON.parse(line) as ReportItem).status >= 400) === (only === 'failed')
    ))
    if (selected.length > 0) yield Buffer.from(`${selected.join('\n')}\n`)
  }
}

const onlyItems = parameter('query', 'only', {
  description: 'Lists only the items that failed, or only those that succeeded',
  schema: { enum: ['failed', 'succeeded'] },
})

/** Reads the parameter `only` of a query. */
export function readOnly<T extends string>(
  { query }: HttpRequest<unknown>, values: readonly T[],
): T | undefined {
  const only = query.getAll('only')
  if (only.length === 0) return undefined
  const found = values.find((each) => each === only[0])
  if (only.length === 1 && found !== undefined) return found
  const allowed = values.map((each) => `"${each}"`).join(' or ')
  throw httpError('invalid_query', {
    message: `The parameter "only" must be ${allowed}, and must occur once.`,
    details: [{ pointer: '/only', message: `must be ${allowed}` }],
  })
}
