import { contentTag, evaluatePreconditions } from '../../../http/fields/preconditions.js'
import { httpError } from '../../../http/errors.js'
import type { HttpRequest, HttpResponse, ResponseHeaders } from '../../../http/exchange.js'
import { negotiate } from '../../../http/fields/accept.js'
import { pageLinkValue, type Link } from '../../../http/fields/link.js'
import { empty, jsonText } from '../../../http/respond.js'
import { toReference } from '../../../http/request.js'
import type { SnapshotPage } from '../../core/task-service.js'
import type { TaskSnapshot } from '../../record/snapshot.js'

const VARY = 'Accept, Authorization'

/** Throws 406 `not_acceptable` if the client does not take JSON. */
export function mustTakeJson({ headers: { accept } }: HttpRequest): void {
  if (accept === undefined || accept === '*/*') return
  if (negotiate(accept, ['application/json']) !== undefined) return
  throw httpError('not_acceptable', { headers: { vary: VARY } })
}

/** Returns the answer for a page. `toText` returns the JSON text of an item. */
export function respondPage(
  request: HttpRequest, page: SnapshotPage, toText: (task: TaskSnapshot) => string,
): HttpResponse {
  const next = page.next === undefined ? undefined : pagePath(request, page.next)
  const body = `{"items":[${page.items.map(toText).join(',')}]${
    next === undefined ? '' : `,"next":${JSON.stringify(next)}`}}`
  const etag = contentTag(body)
  const headers: ResponseHeaders = { etag, 'cache-control': 'private, no-cache', 'vary': VARY }
  const links: Link[] = [{ rel: 'first', target: pagePath(request, undefined) }]
  if (next !== undefined) links.push({ rel: 'next', target: next })
  const link = pageLinkValue(links)
  if (link !== undefined) headers['link'] = link
  const { method, headers: asked } = request
  const outcome = evaluatePreconditions({ method, headers: asked, exists: true, etag })
  if (outcome === 'failed') throw httpError('precondition_failed', { headers: { etag } })
  return outcome === 'proceed' ? jsonText(200, body, headers) : empty(304, headers)
}

/** Returns the path of another page, with all other parameters of the query. */
function pagePath({ path, query }: HttpRequest, cursor: string | undefined): string {
  const search = new URLSearchParams(query)
  search.delete('cursor')
  if (cursor !== undefined) search.set('cursor', cursor)
  const reference = toReference(path)
  return search.size === 0 ? reference : `${reference}?${search.toString()}`
}
