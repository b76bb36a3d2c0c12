import { httpError, type HttpError } from '../http/errors.js'
import type { HttpRequest } from '../http/exchange.js'
import { pageLinkValue, type Link } from '../http/headers/link.js'
import { toReference } from '../http/request.js'

export interface PageSizes {
  readonly batchSize: number
  readonly maxBatchSize: number
  readonly paging: 'position' | 'cursor'
}

export interface PageQuery {
  readonly start: number
  readonly limit: number
  readonly cursor: string | undefined
  /** True if the query names a page; Range is then ignored. */
  readonly explicit: boolean
}

export const MAX_CURSOR = 1024

/** Reads the paging parameters of a query. Throws `invalid_query` (400). */
export function readPageQuery(
  query: URLSearchParams, { batchSize, maxBatchSize, paging }: PageSizes,
): PageQuery {
  const size = once(query, 'batch_size')
  const from = once(query, 'start')
  const cursor = once(query, 'cursor')
  if (cursor !== undefined) {
    if (paging === 'position') throw invalid('This list is paged by "start"; it has no "cursor".')
    if (cursor === '' || cursor.length > MAX_CURSOR) {
      throw invalid('"cursor" must come from this list.')
    }
  }
  const limit = size === undefined ? batchSize : whole('batch_size', size)
  if (limit === 0) throw invalid('"batch_size" must be 1 or more.')
  const start = from === undefined ? 0 : whole('start', from)
  if (paging === 'cursor' && start > 0) {
    throw invalid('This list is paged by "cursor"; follow its "next", from the first page on.')
  }
  const explicit = (size ?? from ?? cursor) !== undefined
  return { start, limit: Math.min(limit, maxBatchSize), cursor, explicit }
}

function once(query: URLSearchParams, name: string): string | undefined {
  const values = query.getAll(name)
  if (values.length > 1) throw invalid(`"${name}" must occur once.`)
  return values[0]
}

/** Reads digits. Numbers that are too large to be exact are cut. */
function whole(name: string, text: string): number {
  if (!/^[0-9]+$/.test(text)) throw invalid(`"${name}" must be a whole number, in digits.`)
  return Math.min(Number(text), Number.MAX_SAFE_INTEGER)
}

function invalid(message: string): HttpError {
  return httpError('invalid_query', { message })
}

export interface PagePlace {
  readonly start: number
  readonly limit: number
  readonly count: number
  readonly total: number | undefined
}

/** Paths of other pages, with all other parameters of the query. */
export interface PageLinks {
  readonly next: string | undefined
  /** The value of Link (RFC 8288); `undefined` if even `next` alone is too long. */
  readonly header: string | undefined
}

/** Returns the links of a page by position. Without a total, a full page may have a next one. */
export function positionLinks(
  request: HttpRequest<unknown>, { start, limit, count, total }: PagePlace,
): PageLinks {
  const at = (from: number): string => {
    return target(request, { start: String(from), batch_size: String(limit) })
  }
  const end = start + count
  const hasNext = total === undefined ? count === limit : end < total && count > 0
  const next = hasNext ? at(end) : undefined
  const links: Link[] = [{ rel: 'first', target: at(0) }]
  const previous = Math.max(0, Math.min(start, total ?? start) - limit)
  if (start > 0) links.push({ rel: 'prev', target: at(previous) })
  if (next !== undefined) links.push({ rel: 'next', target: next })
  if (total !== undefined) {
    const last = total === 0 ? 0 : Math.floor((total - 1) / limit) * limit
    links.push({ rel: 'last', target: at(last) })
  }
  return { next, header: pageLinkValue(links) }
}

export function cursorLinks(
  request: HttpRequest<unknown>, limit: number, cursor: string | undefined,
): PageLinks {
  const batch = { batch_size: String(limit) }
  const next = cursor === undefined ? undefined : target(request, { ...batch, cursor })
  const links: Link[] = [{ rel: 'first', target: target(request, batch) }]
  if (next !== undefined) links.push({ rel: 'next', target: next })
  return { next, header: pageLinkValue(links) }
}

function target(
  { path, query }: HttpRequest<unknown>, page: Readonly<Record<string, string>>,
): string {
  const search = new URLSearchParams(query)
  for (const name of ['start', 'batch_size', 'cursor']) search.delete(name)
  for (const [name, value] of Object.entries(page)) search.set(name, value)
  return `${toReference(path)}?${search.toString()}`
}
