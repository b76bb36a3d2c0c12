import { linkValue, type Link } from '../http/fields/link.js'
import type { HttpRequest } from '../http/exchange.js'

/** Where a page is in its list. */
export interface PagePlace {
  readonly start: number
  readonly limit: number
  /** How many records it has. */
  readonly count: number
  readonly total: number | undefined
}

/** The paths of other pages, with all else that the query said. */
export interface PageLinks {
  readonly next: string | undefined
  /** The value of Link (RFC 8288); `undefined` when even `next` alone would be too long. */
  readonly field: string | undefined
}

/**
 * Longest value of Link, in bytes. The links repeat the query, which a client may make as long as
 * the request line allows; clients read 8 to 16 KiB of header fields in all.
 */
const MAX_FIELD = 4096

/** All links; only `next` where they are too long together. */
function fieldOf(links: readonly Link[]): string | undefined {
  const field = linkValue(links)
  if (field.length <= MAX_FIELD) return field
  const next = linkValue(links.filter(({ rel }) => rel === 'next'))
  return next !== '' && next.length <= MAX_FIELD ? next : undefined
}

/**
 * Links of a page that was asked for by its position. Without a total, a full page may have another
 * behind it.
 */
export function positionLinks(
  request: HttpRequest<unknown>, { start, limit, count, total }: PagePlace,
): PageLinks {
  const at = (from: number): string => target(request, { start: String(from), batch_size: String(limit) })
  const end = start + count
  const next = (total === undefined ? count === limit : end < total && count > 0) ? at(end) : undefined
  const links: Link[] = [{ rel: 'first', target: at(0) }]
  if (start > 0) links.push({ rel: 'prev', target: at(Math.max(0, Math.min(start, total ?? start) - limit)) })
  if (next !== undefined) links.push({ rel: 'next', target: next })
  if (total !== undefined) links.push({ rel: 'last', target: at(total === 0 ? 0 : Math.floor((total - 1) / limit) * limit) })
  return { next, field: fieldOf(links) }
}

/** Links of a page that was asked for by a cursor. */
export function cursorLinks(
  request: HttpRequest<unknown>, limit: number, cursor: string | undefined,
): PageLinks {
  const batch = { batch_size: String(limit) }
  const next = cursor === undefined ? undefined : target(request, { ...batch, cursor })
  const links: Link[] = [{ rel: 'first', target: target(request, batch) }]
  if (next !== undefined) links.push({ rel: 'next', target: next })
  return { next, field: fieldOf(links) }
}

function target(
  { path, query }: HttpRequest<unknown>, page: Readonly<Record<string, string>>,
): string {
  const search = new URLSearchParams(query)
  for (const name of ['start', 'batch_size', 'cursor']) search.delete(name)
  for (const [name, value] of Object.entries(page)) search.set(name, value)
  return `${path}?${search.toString()}`
}
