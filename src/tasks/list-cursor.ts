import { createHash } from 'node:crypto'
import { httpError } from '../http/errors.js'
import type { ListPosition } from '../engine/engine.js'
import type { ListFilter } from './list-options.js'
import { isTaskId } from './record/ids.js'

/** Number of characters of the digest in a cursor: 72 bits. */
const DIGEST_LENGTH = 12
/** Maximum length of a cursor, with an id of 128 characters. */
const MAX_LENGTH = 256

/**
 * Returns the cursor of the page after `position`. It is bound to the owner, the filter and the
 * order, so that a position in one list is never used in another. It is no secret: a list shows the
 * tasks of its owner only, whatever its cursor says.
 */
export function toCursor({ id, createdAt }: ListPosition, filter: ListFilter): string {
  const place = `${createdAt.toString(36)} ${id}`
  const text = digestOf(filter, place) + place
  return Buffer.from(text, 'latin1').toString('base64url')
}

/**
 * Reads the position in a cursor.
 *
 * @throws {HttpError} 400 `invalid_cursor`: it is malformed, or of a list with another owner or
 * filter.
 */
export function readCursor(cursor: string, filter: ListFilter): ListPosition {
  const text = cursor.length > MAX_LENGTH ? '' : Buffer.from(cursor, 'base64url').toString('latin1')
  const [time = '', id = ''] = text.slice(DIGEST_LENGTH).split(' ')
  const position = { createdAt: Number.parseInt(time, 36), id }
  // Written again, so that only a cursor of `toCursor` passes.
  const isOwn = Number.isSafeInteger(position.createdAt) && isTaskId(id)
    && toCursor(position, filter) === cursor
  if (!isOwn) throw httpError('invalid_cursor')
  return position
}

function digestOf(filter: ListFilter, place: string): string {
  const { of, statuses, names, from, to, order } = filter
  const owner = of === 'all' ? 'all' : [of.owner ?? null]
  const times = [from ?? null, to ?? null]
  const parts = [owner, sorted(statuses), sorted(names), times, order, place]
  const hash = createHash('sha256').update(JSON.stringify(parts)).digest('base64url')
  return hash.slice(0, DIGEST_LENGTH)
}

function sorted(texts: readonly string[] | undefined): readonly string[] | null {
  return texts ? [...new Set(texts)].sort() : null
}
