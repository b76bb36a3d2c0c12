import { contentTag } from '../../http/headers/preconditions.js'
import { httpError, notAcceptable, type HttpError } from '../../http/errors.js'
import {
  describe, type Handler, type HttpRequest, type HttpResponse, type ResponseHeaders,
} from '../../http/exchange.js'
import { negotiate } from '../../http/headers/accept.js'
import { pageLinkValue, type Link } from '../../http/headers/link.js'
import { countedAsTenant } from '../../http/requester.js'
import { parseTimestamp } from '../../http/headers/dates.js'
import { empty, isNotModified, jsonText } from '../../http/respond.js'
import { toReference } from '../../http/request.js'
import { isOwnerId, storedOwner, type NamedOwner } from '../../runtime/names.js'
import { cutText } from '../../runtime/text.js'
import { DEFAULT_LIMIT, distinct, listTasks, MAX_LIMIT, type ListFilter } from '../lists.js'
import { TASK_STATUSES } from './formats.js'
import { listOperations } from './operations.js'
import { scopeOf, type EndpointSettings } from './settings.js'

/** The query parameters of a list. Operators have `owner` and `tenant`, too. */
const NAMES = ['status', 'task', 'from', 'to', 'order', 'limit', 'cursor'] as const

/** Maximum length of a client's string in a message. */
const MAX_SHOWN = 64

const VARY = 'Accept, Authorization'
const TYPES = ['application/json']

/** Creates the handler of the list of the tasks that a request may see. */
export function createList<C>(
  settings: EndpointSettings<C>, also: readonly string[] = [],
): Handler<C> {
  const { core, format, path, access } = settings
  const names = access === undefined ? NAMES : [...NAMES, 'owner', 'tenant']
  const handler: Handler<C> = async (request) => {
    if (request.method !== 'GET' && request.method !== 'HEAD') return undefined
    const of = await scopeOf(settings, request)
    // All anonymous clients share the tasks without an owner, and a list would give away their ids.
    if (of !== 'all' && of.owner === undefined) throw httpError('unauthorized')
    requireJson(request)
    const filter = readListFilter(settings, request, of, { names, also })
    const cursor = request.query.get('cursor') ?? undefined
    const { items, next } = await listTasks(core.engine, filter, cursor)
    const texts = items.map((task) => format.toText(task, path.of(request.mountPath, task.id)))
    return respondPage(request, texts, next)
  }
  return describe(handler, listOperations(format, access !== undefined))
}

type Parameters = Partial<Record<typeof NAMES[number] | 'owner' | 'tenant', string>>

/** @throws {HttpError} 400 `invalid_query`: a parameter is unknown, empty or repeated. */
function readParameters(
  query: URLSearchParams, known: readonly string[], also: readonly string[],
): Parameters {
  const values: Record<string, string> = {}
  for (const [name, value] of query) {
    if (also.includes(name)) continue
    if (!known.includes(name)) {
      const shown = JSON.stringify(cutText(name, MAX_SHOWN))
      throw invalid(`There is no query parameter ${shown} here; there are ${known.map((each) => JSON.stringify(each)).join(', ')}.`)
    }
    if (Object.hasOwn(values, name)) throw invalid(`"${name}" must occur once.`)
    if (value === '') throw invalid(`"${name}" must not be empty; leave it out.`)
    values[name] = value
  }
  return values
}

/** Parameters that a query may have. */
interface Known {
  readonly names: readonly string[]
  /** Parameters that are not read here. Default: none. */
  readonly also?: readonly string[]
}

/**
 * Reads the query of a list. `owner` restricts the tasks that the request may see.
 *
 * @throws {HttpError} 400 `invalid_query`: a value is not valid. The message names it.
 */
export function readListFilter<C>(
  { core, format: { statuses: words = TASK_STATUSES } }: EndpointSettings<C>,
  { query }: HttpRequest<C>, of: ListFilter['of'], { names, also = [] }: Known,
): ListFilter {
  const {
    status, task, from, to, order = 'newest', limit = String(DEFAULT_LIMIT), owner, tenant,
  } = readParameters(query, names, also)
  if (order !== 'newest' && order !== 'oldest') throw invalid('"order" must be "newest" or "oldest".')
  if (!/^0*[1-9][0-9]*$/.test(limit)) throw invalid('"limit" must be a whole number from 1, in digits.')
  if (owner !== undefined && !isOwnerId(owner)) throw invalid('"owner" must be the id of an owner.')
  if (tenant !== undefined && !isOwnerId(tenant)) throw invalid('"tenant" must be the id of a tenant.')
  const statuses = status?.split(',').flatMap((word) => {
    if (Object.hasOwn(words, word)) return words[word] ?? []
    const all = Object.keys(words).map((each) => JSON.stringify(each)).join(', ')
    throw invalid(`"status" must be one or several of ${all}, separated by commas.`)
  })
  const kinds = task?.split(',')
  const unknown = kinds?.find((name) => core.definition(name) === undefined)
  if (unknown !== undefined) {
    throw invalid(`"task": there is no task ${JSON.stringify(cutText(unknown, MAX_SHOWN))}.`)
  }
  return {
    of: narrowed(of, { owner, tenant }), order, limit: Math.min(Number(limit), MAX_LIMIT),
    statuses: statuses && distinct(statuses), names: kinds && distinct(kinds),
    from: readTime('from', from), to: readTime('to', to),
  }
}

/** Narrows tasks to those of an owner, of an owner in a tenant, or of a tenant. */
export function narrowed(of: ListFilter['of'], { owner, tenant }: NamedOwner): ListFilter['of'] {
  if (owner !== undefined) return { owner: storedOwner({ owner, tenant }) }
  return tenant === undefined ? of : { caller: countedAsTenant(tenant) }
}

function readTime(name: 'from' | 'to', text: string | undefined): number | undefined {
  // A query has a space where the client wrote `+02:00` without percent-encoding.
  const time = text === undefined ? undefined : parseTimestamp(text.replace(/ (?=\d\d:\d\d$)/, '+'))
  if (time !== undefined || text === undefined) return time
  throw invalid(`"${name}" must be a time of RFC 3339, such as 2026-03-01T09:30:00Z.`)
}

function invalid(message: string): HttpError {
  return httpError('invalid_query', { message })
}

/** Throws 406 `not_acceptable` if the client does not accept JSON. */
export function requireJson({ headers: { accept } }: HttpRequest): void {
  if (accept === undefined || accept === '*/*') return
  if (negotiate(accept, TYPES) === undefined) throw notAcceptable(TYPES, VARY)
}

function respondPage(
  request: HttpRequest, items: readonly string[], cursor: string | undefined,
): HttpResponse {
  const next = cursor === undefined ? undefined : pagePath(request, cursor)
  const body = `{"items":[${items.join(',')}]${
    next === undefined ? '' : `,"next":${JSON.stringify(next)}`}}`
  const etag = contentTag(body)
  const headers: ResponseHeaders = { etag, 'cache-control': 'private, no-cache', 'vary': VARY }
  const links: Link[] = [{ rel: 'first', target: pagePath(request, undefined) }]
  if (next !== undefined) links.push({ rel: 'next', target: next })
  const link = pageLinkValue(links)
  if (link !== undefined) headers['link'] = link
  return isNotModified(request, etag) ? empty(304, headers) : jsonText(200, body, headers)
}

function pagePath({ path, query }: HttpRequest, cursor: string | undefined): string {
  const search = new URLSearchParams(query)
  search.delete('cursor')
  if (cursor !== undefined) search.set('cursor', cursor)
  const reference = toReference(path)
  return search.size === 0 ? reference : `${reference}?${search.toString()}`
}
