import { negotiate } from '../http/accept.js'
import { httpError } from '../http/errors.js'
import { describe, type Handler, type HttpRequest, type HttpResponse, type MaybePromise, type ResponseHeaders } from '../http/exchange.js'
import { checkNames } from '../http/option-names.js'
import { evaluatePreconditions } from '../http/preconditions.js'
import { contentRange, selectRanges } from '../http/range.js'
import type { Call, Page, PageRequest, Repository } from '../repositories/repository.js'
import type { Schema } from '../schema/index.js'
import { contentTag } from './content-tag.js'
import { listOperations } from './list-operation.js'
import { cursorLinks, positionLinks } from './page-links.js'
import { MAX_CURSOR, readPageQuery, type PageQuery, type PageSizes } from './page-query.js'

/** What `list` takes. */
export interface ListOptions<Item extends object = object> {
  /** Where the records are. */
  readonly repository: {
    /** One page, in a stable order. */
    list?(page: PageRequest, call: Call): MaybePromise<Page<Item>>
  }
  /** Records of a page when the client does not say. Default 100. */
  readonly batchSize?: number
  /** More are never given at once: larger wishes are cut to it. Default 1000. */
  readonly maxBatchSize?: number
  /**
   * How the repository finds a page: at a position, or behind an opaque cursor of its own. A cursor goes through the hands
   * of clients; a repository that has to trust what is in it signs it, and throws `httpError('invalid_query')` for one
   * that it did not give. Default `position`.
   */
  readonly paging?: 'position' | 'cursor'
  /** What a record looks like, for OpenAPI. */
  readonly item?: Schema | Readonly<Record<string, unknown>>
  /** Cache-Control of the answers. Default `private, no-cache`. */
  readonly cacheControl?: string
}

/** The names of these. */
export const LIST_OPTIONS = {
  repository: 0, batchSize: 0, maxBatchSize: 0, paging: 0, item: 0, cacheControl: 0,
} satisfies Record<keyof ListOptions, 0>

interface ListPlan<Item extends object> extends PageSizes {
  readonly list: NonNullable<Repository<Item>['list']>
  readonly cacheControl: string
}

const JSON_TYPE = 'application/json'
const NDJSON_TYPE = 'application/x-ndjson'
const OFFERS = [JSON_TYPE, NDJSON_TYPE]
const UNIT = 'items'

/**
 * A handler for GET and HEAD that gives the records of a repository in pages (SPEC 4.2): `?batch_size=` (100, and 1000 at
 * the most) and `?start=` (from 0; past the end is an empty page), or `?cursor=`, as
 * `{ items, start, batch_size, total?, next? }`, where `next` is the path of the next page. `Link` names `first`, `prev`, `next` and
 * `last`, as far as they are known. A client that prefers `application/x-ndjson` gets one record a line.
 *
 * Lists by position understand `Range: items=0-24` (RFC 9110 section 14) where the query says nothing of pages: 206 with
 * `Content-Range: items 0-24/1200` (`/*` when the source does not count), cut to the largest page; 416 past the end.
 *
 * Whole pages have an ETag. Fails with `invalid_query` (400), `not_acceptable` (406), `range_not_satisfiable` (416) and what the repository throws.
 *
 * @throws {TypeError} when an option makes no sense
 */
export function list<Item extends object = object, C = unknown>(options: ListOptions<Item>): Handler<C> {
  checkNames('list', options, LIST_OPTIONS)
  return listHandler(options)
}

/** The handler of `list`, from options that may hold more, such as those of a collection. */
export function listHandler<Item extends object, C>(options: ListOptions<Item>): Handler<C> {
  const { repository, batchSize = 100, maxBatchSize = 1000, paging = 'position', item, cacheControl = 'private, no-cache' } = options
  if (typeof repository?.list !== 'function') throw new TypeError('list: the repository needs a method list(page, call)')
  if (!isCount(maxBatchSize)) throw new TypeError('list: maxBatchSize must be a whole number from 1')
  if (!isCount(batchSize) || batchSize > maxBatchSize) throw new TypeError('list: batchSize must be a whole number from 1 to maxBatchSize')
  if (paging !== 'position' && paging !== 'cursor') throw new TypeError("list: paging must be 'position' or 'cursor'")
  const plan: ListPlan<Item> = { list: repository.list.bind(repository), batchSize, maxBatchSize, paging, cacheControl }
  const handler = (request: HttpRequest<C>): Promise<HttpResponse> | undefined =>
    (request.method === 'GET' || request.method === 'HEAD' ? answer(request, plan) : undefined)
  return describe(handler, listOperations(plan, item ?? { type: 'object' }))
}

async function answer<Item extends object>(request: HttpRequest<unknown>, plan: ListPlan<Item>): Promise<HttpResponse> {
  const { headers: asked, query, signal, context } = request
  const type = negotiate(asked['accept'], OFFERS)
  if (type === undefined) throw httpError('not_acceptable', { headers: { vary: 'Accept' } })
  const pageQuery = readPageQuery(query, plan)
  const read = async (page: PageRequest): Promise<Page<Item>> => checked(await plan.list(page, { signal, context }), page)

  const headers: ResponseHeaders = { 'content-type': type, 'vary': 'Accept', 'cache-control': plan.cacheControl }
  if (plan.paging === 'position') headers['accept-ranges'] = UNIT
  const range = await wantedRange(request, pageQuery, plan, read)
  if (range !== undefined) {
    const page = await read(range)
    const { items, total } = page
    if (items.length === 0) throw unsatisfiable(total)
    headers['content-range'] = total === undefined
      ? `${UNIT} ${range.start}-${range.start + items.length - 1}/*`
      : contentRange({ start: range.start, end: range.start + items.length }, total, UNIT)
    return { status: 206, headers, body: bodyOf(request, type, page, range, plan, headers) }
  }
  const { start, limit, cursor } = pageQuery
  const wanted: PageRequest = { start, limit, ...cursor !== undefined && { cursor } }
  const page = await read(wanted)
  const body = bodyOf(request, type, page, wanted, plan, headers)
  const etag = headers['etag'] = contentTag(body)
  const outcome = evaluatePreconditions({ method: request.method, headers: asked, exists: true, etag })
  if (outcome === 'failed') throw httpError('precondition_failed', { headers: { etag } })
  if (outcome === 'proceed') return { status: 200, headers, body }
  const { 'content-type': _, ...kept } = headers
  return { status: 304, headers: kept }
}

/** They are about the whole list, and only its pages have tags. */
const CONDITIONS = ['if-range', 'if-match', 'if-none-match']

/** The page that Range asks for; `undefined` where it is to be ignored, as it may be always. */
async function wantedRange<Item>(
  { method, headers }: HttpRequest<unknown>, { explicit }: PageQuery, { paging, maxBatchSize }: ListPlan<Item & object>,
  read: (page: PageRequest) => Promise<Page<Item>>,
): Promise<PageRequest | undefined> {
  const field = headers['range']
  if (field === undefined || method !== 'GET' || explicit || paging === 'cursor') return undefined
  if (CONDITIONS.some((name) => headers[name] !== undefined)) return undefined
  let total = Number.MAX_SAFE_INTEGER
  if (/=[ \t]*-/.test(String(field))) {
    // The last so many: where they begin depends on how many there are.
    const counted = (await read({ start: 0, limit: 1 })).total
    if (counted === undefined) return undefined
    total = counted
  }
  const ranges = selectRanges(field, total, { unit: UNIT, maxRanges: 1 })
  if (ranges === 'unsatisfiable') throw unsatisfiable(total === Number.MAX_SAFE_INTEGER ? undefined : total)
  const [first] = ranges
  if (first === undefined || typeof first === 'string') return undefined
  return { start: first.start, limit: Math.min(first.end - first.start, maxBatchSize) }
}

function unsatisfiable(total: number | undefined): Error {
  const headers = { 'accept-ranges': UNIT, ...total !== undefined && { 'content-range': contentRange(undefined, total, UNIT) } }
  return httpError('range_not_satisfiable', { headers })
}

function bodyOf<Item extends object>(
  request: HttpRequest<unknown>, type: string, { items, total, next: nextCursor }: Page<Item>, { start, limit, cursor }: PageRequest,
  { paging }: ListPlan<Item>, headers: ResponseHeaders,
): string {
  const links = paging === 'cursor' ? cursorLinks(request, limit, nextCursor) : positionLinks(request, { start, limit, count: items.length, total })
  headers['link'] = links.field
  if (type === NDJSON_TYPE) return items.map((item) => `${JSON.stringify(item)}\n`).join('')
  // Of a page behind a cursor nobody knows the position.
  return JSON.stringify({ items, start: cursor === undefined ? start : undefined, batch_size: limit, total, next: links.next })
}

function checked<Item>(page: Page<Item>, { limit }: PageRequest): Page<Item> {
  if (!Array.isArray(page?.items)) throw new TypeError('list: the repository must give { items, total?, next? }')
  if (page.items.length > limit) throw new RangeError(`list: the repository gave ${page.items.length} records where ${limit} were asked for`)
  if (page.next !== undefined && (page.next === '' || page.next.length > MAX_CURSOR)) {
    throw new RangeError(`list: a cursor must have from 1 to ${MAX_CURSOR} characters`)
  }
  return page
}

function isCount(value: number): boolean {
  return Number.isSafeInteger(value) && value >= 1
}
