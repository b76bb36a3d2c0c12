import { httpError, type HttpError } from '../../../http/errors.js'
import type { HttpRequest } from '../../../http/exchange.js'
import { parseTimestamp } from '../../../http/fields/dates.js'
import { cutText } from '../../../runtime/text.js'
import type { ListedStatus } from '../../../engine/engine.js'
import { DEFAULT_LIMIT, MAX_LIMIT, type ListFilter } from '../../list-options.js'

/** The query parameters of a list. `owner` is for operators only. */
const NAMES = ['status', 'task', 'from', 'to', 'order', 'limit', 'cursor'] as const
type Name = typeof NAMES[number] | 'owner'

/** Maximum length of a client's text in a message. */
const MAX_SHOWN = 64
/** Maximum length of an owner's id in an index. */
const MAX_OWNER = 512

/** The rules for the query of one list. */
export interface QueryRules {
  /** The words for `status`, each with the statuses that it stands for. */
  readonly statuses: Readonly<Record<string, readonly ListedStatus[]>>
  /** Returns whether there is a definition of this name. */
  readonly hasTask: (name: string) => boolean
  /** Further parameters, which something else reads. */
  readonly also: ReadonlySet<string>
  /** `true` if the client may name an owner. */
  readonly byOwner: boolean
}

/** The page that a query asks for. */
export interface ListedPage {
  readonly filter: Omit<ListFilter, 'of'>
  /** The owner in the query of an operator. */
  readonly owner: string | undefined
  readonly cursor: string | undefined
}

/**
 * Reads the query of a list.
 *
 * @throws {HttpError} 400 `invalid_query`: a parameter is unknown or repeated, or its value is not
 * valid. The message names it.
 */
export function readListQuery({ search, query }: HttpRequest, rules: QueryRules): ListedPage {
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
