import type { ListedStatus } from '../../engine/engine.js'
import { contentTag, evaluatePreconditions } from '../../http/fields/preconditions.js'
import { httpError, type HttpError } from '../../http/errors.js'
import {
  compose, describe, type Handler, type HttpRequest, type HttpResponse, type Policy,
  type ResponseHeaders,
} from '../../http/exchange.js'
import { negotiate } from '../../http/fields/accept.js'
import { pageLinkValue, type Link } from '../../http/fields/link.js'
import { parseTimestamp } from '../../http/fields/dates.js'
import { empty, jsonText } from '../../http/respond.js'
import { toReference } from '../../http/request.js'
import { cutText } from '../../runtime/text.js'
import { readOptions, value, type OptionTable } from '../../runtime/options.js'
import { DEFAULT_LIMIT, MAX_LIMIT, type ListFilter } from '../lists.js'
import type { SnapshotPage } from '../core/task-service.js'
import type { TaskSnapshot } from '../record/snapshot.js'
import { TASK_STATUSES } from './formats.js'
import { listOperations } from './operations.js'
import type { EndpointSettings } from './settings.js'

/** Options of `operatorList`. */
export interface OperatorListOptions<C = unknown> {
  /**
   * Policies that reject everybody but operators, such as `authorize({ allow, reason })`. They run first.
   * Required, because the list shows the tasks of all owners.
   */
  readonly authorize: Policy<C> | readonly Policy<C>[]
  /**
   * Further query parameters that a request may have, such as one that a policy in front reads.
   * Default: none.
   */
  readonly also?: readonly string[]
}

const OPTIONS = {
  authorize: value(), also: value('an array of names', Array.isArray),
} satisfies OptionTable<OperatorListOptions>

/** The query parameters of a list. `owner` is for operators only. */
const NAMES = ['status', 'task', 'from', 'to', 'order', 'limit', 'cursor'] as const
type Name = typeof NAMES[number] | 'owner'

/** Maximum length of a client's text in a message. */
const MAX_SHOWN = 64
/** Maximum length of an owner's id in an index. */
const MAX_OWNER = 512

const VARY = 'Accept, Authorization'

/** Creates the handler of a requester's own list. See `TaskEndpoints.list`. */
export function createOwnList<C>(settings: EndpointSettings<C>): Handler<C> {
  return createList(settings, settings.listedAlso, false)
}

/** Creates the handler of the list of all owners' tasks. See `TaskEndpoints.operatorList`. */
export function createOperatorList<C>(
  settings: EndpointSettings<C>, options: OperatorListOptions<C>,
): Handler<C> {
  const { authorize, also = [] } = readOptions('operatorList', options, OPTIONS)
  return compose(...policiesOf('operatorList', authorize), createList(settings, also, true))
}

/** @param byOperator - `true`: of the tasks of all owners */
function createList<C>(
  settings: EndpointSettings<C>, also: readonly string[], byOperator: boolean,
): Handler<C> {
  const { service, format, path, requester } = settings
  const rules: QueryRules = {
    statuses: format.statuses ?? TASK_STATUSES, also: new Set(also), byOwner: byOperator,
    hasTask: (name) => service.definition(name) !== undefined,
  }
  const respondWith = async (
    request: HttpRequest<C>, own: string | undefined,
  ): Promise<HttpResponse> => {
    requireJson(request)
    const { filter, owner = own, cursor } = readListQuery(request, rules)
    const of = owner === undefined ? 'all' as const : { owner }
    const page = await service.list({ ...filter, of }, cursor)
    return respondPage(request, page, (task) => {
      const item = format.toText(task, path.of(request.mountPath, task.id))
      if (!byOperator || task.owner === undefined) return item
      return JSON.stringify({ owner: task.owner, ...JSON.parse(item) as object })
    })
  }
  const handler: Handler<C> = async (request) => {
    if (request.method !== 'GET' && request.method !== 'HEAD') return undefined
    if (byOperator) return respondWith(request, undefined)
    const { owner } = requester(request)
    // All anonymous clients share the tasks without an owner, and a list would give away their ids.
    if (owner === undefined) throw httpError('unauthorized')
    return respondWith(request, owner)
  }
  return describe(handler, listOperations(format, rules.statuses, byOperator))
}

/**
 * Returns the policies that let only operators pass.
 *
 * @throws {TypeError} There is none.
 */
export function policiesOf<C>(
  where: string, authorize: Policy<C> | readonly Policy<C>[],
): readonly Policy<C>[] {
  const policies = [authorize].flat<(Policy<C> | readonly Policy<C>[])[]>()
  if (policies.length > 0 && policies.every((policy) => typeof policy === 'function')) {
    return policies
  }
  throw new TypeError(`${where}: the option authorize is missing. It shows the tasks of all owners, ` +
    'so pass the policies that reject everybody but operators: authorize: authorize({ allow, reason })')
}

interface QueryRules {
  readonly statuses: Readonly<Record<string, readonly ListedStatus[]>>
  readonly hasTask: (name: string) => boolean
  /** Further parameters, which something else reads. */
  readonly also: ReadonlySet<string>
  /** `true` if the client may name an owner. */
  readonly byOwner: boolean
}

interface ListedPage {
  readonly filter: Omit<ListFilter, 'of'>
  readonly owner: string | undefined
  readonly cursor: string | undefined
}

/**
 * Reads the query of a list.
 *
 * @throws {HttpError} 400 `invalid_query`: a parameter is unknown or repeated, or its value is not
 * valid. The message names it.
 */
function readListQuery({ search, query }: HttpRequest, rules: QueryRules): ListedPage {
  const values = search === '' ? {} : parametersOf(query, rules)
  const { status, task, from, to, order = 'newest', limit, cursor, owner } = values
  if (order !== 'newest' && order !== 'oldest') throw invalid('order must be newest or oldest.')
  return {
    filter: {
      statuses: status === undefined ? undefined : readStatuses(status, rules),
      names: task === undefined ? undefined : readNames(task, rules),
      from: readTime('from', from), to: readTime('to', to),
      order, limit: readLimit(limit),
    },
    owner: owner === undefined ? undefined : readOwner(owner),
    cursor,
  }
}

function parametersOf(
  query: URLSearchParams, { also, byOwner }: QueryRules,
): Partial<Record<Name, string>> {
  const known: readonly string[] = byOwner ? [...NAMES, 'owner'] : NAMES
  const values: Record<string, string> = {}
  for (const [name, value] of query) {
    if (also.has(name)) continue
    if (!known.includes(name)) {
      const shown = JSON.stringify(cutText(name, MAX_SHOWN))
      throw invalid(`There is no query parameter ${shown} here; there are ${known.join(', ')}.`)
    }
    if (Object.hasOwn(values, name)) throw invalid(`${name} must be there once.`)
    if (value === '') throw invalid(`${name} must not be empty; leave it out.`)
    values[name] = value
  }
  return values
}

function readStatuses(text: string, { statuses }: QueryRules): ListedStatus[] {
  const found = text.split(',').flatMap((word) => {
    if (Object.hasOwn(statuses, word)) return statuses[word] ?? []
    const words = Object.keys(statuses).join(', ')
    throw invalid(`status must be one or several of ${words}, separated by commas.`)
  })
  return [...new Set(found)]
}

function readNames(text: string, { hasTask }: QueryRules): string[] {
  const names = [...new Set(text.split(','))]
  const unknown = names.find((name) => !hasTask(name))
  if (unknown === undefined) return names
  throw invalid(`task: there is no task ${JSON.stringify(cutText(unknown, MAX_SHOWN))}.`)
}

function readTime(name: 'from' | 'to', text: string | undefined): number | undefined {
  if (text === undefined) return undefined
  // A query has a space where the client wrote `+02:00` without percent-encoding.
  const time = parseTimestamp(text.replace(/ (?=\d\d:\d\d$)/, '+'))
  if (time !== undefined) return time
  throw invalid(`${name} must be a time of RFC 3339, such as 2026-03-01T09:30:00Z.`)
}

function readLimit(text: string | undefined): number {
  if (text === undefined) return DEFAULT_LIMIT
  if (!/^0*[1-9][0-9]*$/.test(text)) throw invalid('limit must be a whole number from 1, in digits.')
  return Math.min(Number(text), MAX_LIMIT)
}

function readOwner(text: string): string {
  if (text.length <= MAX_OWNER && !text.includes('\0')) return text
  throw invalid('owner must be the id of an owner.')
}

function invalid(message: string): HttpError {
  return httpError('invalid_query', { message })
}
/** Throws 406 `not_acceptable` if the client does not take JSON. */
export function requireJson({ headers: { accept } }: HttpRequest): void {
  if (accept === undefined || accept === '*/*') return
  if (negotiate(accept, ['application/json']) !== undefined) return
  throw httpError('not_acceptable', { headers: { vary: VARY } })
}

/** Returns the response with a page. `toText` returns the JSON text of an item. */
function respondPage(
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

function pagePath({ path, query }: HttpRequest, cursor: string | undefined): string {
  const search = new URLSearchParams(query)
  search.delete('cursor')
  if (cursor !== undefined) search.set('cursor', cursor)
  const reference = toReference(path)
  return search.size === 0 ? reference : `${reference}?${search.toString()}`
}
