import { httpError, type HttpError } from '../http/errors.js'

/** Paging of a list. */
export interface PageSizes {
  /** Number of records in a page if the client does not name one. */
  readonly batchSize: number
  /** Maximum number of records in a page. */
  readonly maxBatchSize: number
  readonly paging: 'position' | 'cursor'
}

/** The page that a query asks for. */
export interface PageQuery {
  readonly start: number
  readonly limit: number
  readonly cursor: string | undefined
  /** True if the query names a page; Range is then ignored. */
  readonly explicit: boolean
}

/** Maximum length of a cursor. */
export const MAX_CURSOR = 1024

/** Reads the paging parameters of a query. Throws `invalid_query` (400). */
export function readPageQuery(
  query: URLSearchParams, { batchSize, maxBatchSize, paging }: PageSizes,
): PageQuery {
  const size = once(query, 'batch_size')
  const from = once(query, 'start')
  const cursor = once(query, 'cursor')
  if (cursor !== undefined) {
    if (paging === 'position') throw invalid('This list is paged by start; it has no cursor.')
    if (cursor === '' || cursor.length > MAX_CURSOR) {
      throw invalid('cursor must be one that this list gave.')
    }
  }
  const limit = size === undefined ? batchSize : whole('batch_size', size)
  if (limit === 0) throw invalid('batch_size must be 1 or more.')
  const start = from === undefined ? 0 : whole('start', from)
  if (paging === 'cursor' && start > 0) {
    throw invalid('This list is paged by cursor; follow its next, from the first page on.')
  }
  const explicit = (size ?? from ?? cursor) !== undefined
  return { start, limit: Math.min(limit, maxBatchSize), cursor, explicit }
}

function once(query: URLSearchParams, name: string): string | undefined {
  const values = query.getAll(name)
  if (values.length > 1) throw invalid(`${name} must be there once.`)
  return values[0]
}

/** Reads digits. Numbers that are too large to be exact are cut. */
function whole(name: string, text: string): number {
  if (!/^[0-9]+$/.test(text)) throw invalid(`${name} must be a whole number, in digits.`)
  return Math.min(Number(text), Number.MAX_SAFE_INTEGER)
}

function invalid(message: string): HttpError {
  return httpError('invalid_query', { message })
}
