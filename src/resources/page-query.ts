import { httpError, type HttpError } from '../http/errors.js'

/** How a list is cut into pages. */
export interface PageSizes {
  /** Records of a page when the client does not say. */
  readonly batchSize: number
  /** More are never given at once. */
  readonly maxBatchSize: number
  readonly paging: 'position' | 'cursor'
}

/** The page that a query asks for. */
export interface PageQuery {
  readonly start: number
  readonly limit: number
  readonly cursor: string | undefined
  /** Whether the query says anything of pages; Range is ignored then. */
  readonly explicit: boolean
}

/** Longer cursors are refused, and never given. */
export const MAX_CURSOR = 1024

/** What a query says of pages. Other parameters are not looked at. Throws `invalid_query` (400). */
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
  return { start, limit: Math.min(limit, maxBatchSize), cursor, explicit: size !== undefined || from !== undefined || cursor !== undefined }
}

function once(query: URLSearchParams, name: string): string | undefined {
  const values = query.getAll(name)
  if (values.length > 1) throw invalid(`${name} must be there once.`)
  return values[0]
}

/** Digits; numbers that are too large to be exact are cut. */
function whole(name: string, text: string): number {
  if (!/^[0-9]+$/.test(text)) throw invalid(`${name} must be a whole number, in digits.`)
  return Math.min(Number(text), Number.MAX_SAFE_INTEGER)
}

function invalid(message: string): HttpError {
  return httpError('invalid_query', { message })
}
