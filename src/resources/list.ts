import { negotiate } from '../http/headers/accept.js'
import { httpError, notAcceptable } from '../http/errors.js'
import {
  describe, type Handler, type HttpRequest, type HttpResponse, type RequestHeaders,
  type ResponseHeaders,
} from '../http/exchange.js'
import type { MaybePromise } from '../runtime/maybe-promise.js'
import { oneOf, readOptions, text, value, whole, type OptionTable } from '../runtime/options.js'
import { ifRangeHolds, contentTag } from '../http/headers/preconditions.js'
import { NDJSON_TYPES } from '../http/headers/ndjson-types.js'
import { isNotModified } from '../http/respond.js'
import { contentRange, selectRanges } from '../http/headers/range.js'
import type { Call, Page, PageRequest, Repository } from '../repositories/repository.js'
import { readEach, readRecord } from '../repositories/returned.js'
import { isWholeNumber } from '../http/body/json.js'
import type { Schema } from '../schema/schema.js'
import { listOperations } from './operations.js'
import {
  cursorLinks, MAX_CURSOR, positionLinks, readPageQuery, type PageQuery, type PageSizes,
} from './pages.js'

/** Options of `list`. */
export interface ListOptions<Item extends object = object> {
  /** The source of the records. */
  readonly repository: {
    /** Returns one page, in a stable order. */
    list?(page: PageRequest, call: Call): MaybePromise<Page<Item>>
  }
  /** Number of records in a page if the client does not name one. Default 100. */
  readonly batchSize?: number
  /**
   * Maximum number of records in a page. Default 1000.
   *
   * A request for more gets this number.
   */
  readonly maxBatchSize?: number
  /**
   * Addressing of pages: by position, or by an opaque cursor of the repository. Default `position`.
   *
   * Clients can change a cursor, so a repository may have to sign it.
   */
  readonly paging?: 'position' | 'cursor'
  /** Schema of a record, for OpenAPI. */
  readonly item?: Schema | Readonly<Record<string, unknown>>
  /** Cache-Control of the responses. Default `private, no-cache`. */
  readonly cacheControl?: string
}

export const LIST_OPTIONS = {
  repository: value('an object with methods such as list(page, call)', (repository) => (
    typeof repository === 'object' && repository !== null
  ), { required: true }),
  batchSize: whole({ min: 1, default: 100 }),
  maxBatchSize: whole({ min: 1, default: 1000 }),
  paging: oneOf(['position', 'cursor'], { default: 'position' }),
  item: value(),
  cacheControl: text({ default: 'private, no-cache' }),
} satisfies OptionTable<ListOptions>

interface ListPlan<Item extends object> extends PageSizes {
  readonly list: NonNullable<Repository<Item>['list']>
  readonly cacheControl: string
}

const JSON_TYPE = 'application/json'
const OFFERS = [JSON_TYPE, ...NDJSON_TYPES]
const UNIT = 'items'

/**
 * Serves the records of a repository in pages, to GET and HEAD. The query has `batch_size` (default
 * 100, at most 1000) and `start` (default 0), or `cursor`. The body is `{ items, start, batch_size,
 * total?, next? }`; `next` is a path. `Link` names `first`, `prev`, `next` and `last`. A client
 * that prefers `application/x-ndjson`, or another type of NDJSON, gets one record a line.
 *
 * Lists by position understand `Range: items=0-24` (RFC 9110 section 14): 206 with `Content-Range:
 * items 0-24/1200` (`/*` if the repository does not count); 416 past the end. Every page has an
 * ETag; a 206 has that of the 200 with the same records.
 *
 * Errors: `invalid_query` (400), `not_acceptable` (406), `range_not_satisfiable` (416).
 * @example
 * router({ 'GET /users': list({ repository }) })
 * @throws {TypeError} An option is not valid or unknown.
 */
export function list<Item extends object = object, C = unknown>(
  options: ListOptions<Item>,
): Handler<C> {
  return listHandler(readOptions('list', options, LIST_OPTIONS))
}

type ReadListOptions<Item extends object> = ListOptions<Item> & Pick<
  Required<ListOptions<Item>>, 'batchSize' | 'maxBatchSize' | 'paging' | 'cacheControl'
>

export function listHandler<Item extends object, C>(
  { repository, batchSize, maxBatchSize, paging, item, cacheControl }: ReadListOptions<Item>,
): Handler<C> {
  if (typeof repository.list !== 'function') {
    throw new TypeError('list: the repository needs a method list(page, call)')
  }
  if (batchSize > maxBatchSize) throw new TypeError('list: batchSize must be at most maxBatchSize')
  const plan: ListPlan<Item> = {
    list: repository.list.bind(repository), batchSize, maxBatchSize, paging, cacheControl,
  }
  const handler = (request: HttpRequest<C>): Promise<HttpResponse> | undefined =>
    (request.method === 'GET' || request.method === 'HEAD' ? respond(request, plan) : undefined)
  return describe(handler, listOperations(plan, item ?? { type: 'object' }))
}

async function respond<Item extends object>(
  request: HttpRequest<unknown>, plan: ListPlan<Item>,
): Promise<HttpResponse> {
  const { headers: asked, query, signal, context } = request
  const type = negotiate(asked['accept'], OFFERS)
  if (type === undefined) throw notAcceptable(OFFERS)
  const pageQuery = readPageQuery(query, plan)
  const read = async (page: PageRequest): Promise<ReadPage<Item>> => {
    return checked(await plan.list(page, { signal, context }), page)
  }
  const headers: ResponseHeaders = {
    'content-type': type, 'vary': 'Accept', 'cache-control': plan.cacheControl,
  }
  if (plan.paging === 'position') headers['accept-ranges'] = UNIT
  const call: ListCall<Item> = { request, type, headers, plan, read }

  const range = await wantedRange(call, pageQuery)
  const part = range && await respondWithRange(call, range)
  if (part !== undefined) return part
  const { start, limit, cursor } = pageQuery
  const wanted: PageRequest = { start, limit, ...cursor !== undefined && { cursor } }
  const { body, link } = shown(call, await read(wanted), wanted)
  if (link !== undefined) headers['link'] = link
  return conditional(call, contentTag(body)) ?? { status: 200, headers, body }
}

/** A request, while its response is made. */
interface ListCall<Item extends object> {
  readonly request: HttpRequest<unknown>
  readonly type: string
  readonly headers: ResponseHeaders
  readonly plan: ListPlan<Item>
  readonly read: (page: PageRequest) => Promise<ReadPage<Item>>
}

/** Sets the entity tag. Returns the 304 if the client has the representation with this tag. */
function conditional<Item extends object>(
  { request, headers }: ListCall<Item>, etag: string,
): HttpResponse | undefined {
  const notModified = isNotModified(request, etag)
  headers['etag'] = etag
  if (!notModified) return undefined
  const { 'content-type': _, ...kept } = headers
  return { status: 304, headers: kept }
}

/** Responds to Range. Returns `undefined` if the whole page must be sent instead. */
async function respondWithRange<Item extends object>(
  call: ListCall<Item>, range: PageRequest,
): Promise<HttpResponse | undefined> {
  const { request: { headers: asked }, headers, plan: { batchSize }, read } = call
  const { start, limit } = range
  const tagged = start + limit <= batchSize ? { start: 0, limit: batchSize } : range
  const page = await read(tagged)
  const items = page.items.slice(start - tagged.start, start - tagged.start + limit)
  if (items.length === 0) return unsatisfiable(asked, page.total)
  const { body, link } = shown(call, { ...page, items }, range)
  const etag = contentTag(tagged === range ? body : shown(call, page, tagged).body)
  const known = conditional(call, etag)
  if (known !== undefined) return known
  if (!ifRangeHolds({ headers: asked, etag }, Date.now())) return undefined
  if (link !== undefined) headers['link'] = link
  headers['content-range'] = page.total === undefined
    ? `${UNIT} ${start}-${start + items.length - 1}/*`
    : contentRange({ start, end: start + items.length }, page.total, UNIT)
  return { status: 206, headers, body }
}

/**
 * Returns the page that Range asks for; `undefined` if Range is ignored, which is always allowed.
 */
async function wantedRange<Item extends object>(
  call: ListCall<Item>, { explicit }: PageQuery,
): Promise<PageRequest | undefined> {
  const { request: { method, headers: asked }, plan: { paging, maxBatchSize }, read } = call
  const header = asked['range']
  if (header === undefined || method !== 'GET' || explicit || paging === 'cursor') return undefined
  let total = Number.MAX_SAFE_INTEGER
  if (/=[ \t]*-/.test(String(header))) {
    // A suffix range starts relative to the number of records.
    const counted = (await read({ start: 0, limit: 1 })).total
    if (counted === undefined) return undefined
    total = counted
  }
  const ranges = selectRanges(header, total, { unit: UNIT, maxRanges: 1 })
  if (ranges === 'unsatisfiable') {
    return unsatisfiable(asked, total === Number.MAX_SAFE_INTEGER ? undefined : total)
  }
  const [first] = ranges
  if (first === undefined || typeof first === 'string') return undefined
  return { start: first.start, limit: Math.min(first.end - first.start, maxBatchSize) }
}

const CONDITIONS = ['if-range', 'if-match', 'if-none-match']

function unsatisfiable(asked: RequestHeaders, total: number | undefined): undefined {
  if (CONDITIONS.some((name) => asked[name] !== undefined)) return undefined
  const headers: Record<string, string> = { 'accept-ranges': UNIT }
  if (total !== undefined) headers['content-range'] = contentRange(undefined, total, UNIT)
  throw httpError('range_not_satisfiable', { headers })
}

function shown<Item extends object>(
  { request, type, plan: { paging } }: ListCall<Item>, page: ReadPage<Item>,
  { start, limit, cursor }: PageRequest,
): { readonly body: string, readonly link: string | undefined } {
  const { items, total } = page
  const links = paging === 'cursor'
    ? cursorLinks(request, limit, page.next)
    : positionLinks(request, { start, limit, count: items.length, total })
  const link = links.header
  if (type !== JSON_TYPE) {
    return { link, body: items.map((item) => `${JSON.stringify(item)}\n`).join('') }
  }
  // The position of a page behind a cursor is unknown.
  const position = cursor === undefined ? start : undefined
  const body = { items, start: position, batch_size: limit, total, next: links.next }
  return { link, body: JSON.stringify(body) }
}

function checked<Item extends object>(page: Page<Item>, { limit }: PageRequest): ReadPage<Item> {
  const { items, total: counted, next: cursor } = page ?? {}
  if (!Array.isArray(items)) {
    throw new TypeError('list: the repository must return { items, total?, next? }')
  }
  if (items.length > limit) {
    const message = `the repository returned ${items.length} records instead of at most ${limit}`
    throw new RangeError(`list: ${message}`)
  }
  const total = counted ?? undefined
  if (total !== undefined && !isWholeNumber(total)) {
    throw new TypeError('list: total must be a whole number, not text or another value')
  }
  const next = cursor ?? undefined
  if (next !== undefined && !(next.length >= 1 && next.length <= MAX_CURSOR)) {
    throw new RangeError(`list: a cursor must have from 1 to ${MAX_CURSOR} characters`)
  }
  const records = readEach(items, (item) => readRecord(item, 'list: the repository') as Item)
  return { items: records, total, next }
}

/** A page whose values were checked. */
interface ReadPage<Item> {
  readonly items: readonly Item[]
  readonly total: number | undefined
  readonly next: string | undefined
}
