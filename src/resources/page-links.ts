import { pageLinkValue, type Link } from '../http/fields/link.js'
import type { HttpRequest } from '../http/exchange.js'
import { toReference } from '../http/request.js'

/** Position of a page in its list. */
export interface PagePlace {
  readonly start: number
  readonly limit: number
  /** Number of records in the page. */
  readonly count: number
  readonly total: number | undefined
}

/** Paths of other pages, with all other parameters of the query. */
export interface PageLinks {
  readonly next: string | undefined
  /** The value of Link (RFC 8288); `undefined` if even `next` alone is too long. */
  readonly field: string | undefined
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
  return { next, field: pageLinkValue(links) }
}

/** Returns the links of a page by cursor. */
export function cursorLinks(
  request: HttpRequest<unknown>, limit: number, cursor: string | undefined,
): PageLinks {
  const batch = { batch_size: String(limit) }
  const next = cursor === undefined ? undefined : target(request, { ...batch, cursor })
  const links: Link[] = [{ rel: 'first', target: target(request, batch) }]
  if (next !== undefined) links.push({ rel: 'next', target: next })
  return { next, field: pageLinkValue(links) }
}

function target(
  { path, query }: HttpRequest<unknown>, page: Readonly<Record<string, string>>,
): string {
  const search = new URLSearchParams(query)
  for (const name of ['start', 'batch_size', 'cursor']) search.delete(name)
  for (const [name, value] of Object.entries(page)) search.set(name, value)
  return `${toReference(path)}?${search.toString()}`
}
