import { isJsonObject } from '../http/body/json.js'
import { httpError, type HttpError } from '../http/errors.js'
import { UNKNOWN_MEMBER } from '../json-array/array-error.js'
import { childPointer, isArrayIndex } from '../schema/pointer.js'
import type { BulkSettings } from './settings.js'

/** Settings that say where the items are in a body. */
export type ItemsPlace = Pick<BulkSettings<never>, 'items' | 'path' | 'otherMembers'>

/**
 * Returns the array that `items` points to in a parsed body.
 *
 * @throws {HttpError} `invalid_input`: there is no array at that place, or something beside it that
 * is refused.
 */
export function itemsOf({ items, path, otherMembers }: ItemsPlace, body: unknown): unknown[] {
  let value = body
  let pointer = ''
  for (const key of path) {
    const child = childPointer(pointer, key)
    const isList = Array.isArray(value) && isArrayIndex(key)
    if (!isList && !isJsonObject(value)) throw notFound(items, child, 'is required')
    const container = value as Readonly<Record<string, unknown>>
    if (!Object.hasOwn(container, key)) throw notFound(items, child, 'is required')
    if (otherMembers === 'refuse') {
      const other = Object.keys(container).find((each) => each !== key)
      if (other !== undefined) throw unknown(items, childPointer(pointer, other))
    }
    value = container[key]
    pointer = child
  }
  if (!Array.isArray(value)) throw notFound(items, pointer, 'must be array')
  return value
}

function notFound(items: string, pointer: string, message: string): HttpError {
  return httpError('invalid_input', {
    message: `${items === '' ? 'The body' : `The value at ${items}`} must be an array.`,
    details: [{ pointer, message }],
  })
}

function unknown(items: string, pointer: string): HttpError {
  return httpError('invalid_input', {
    message: `The body must have nothing beside the array at ${items}.`,
    details: [{ pointer, message: UNKNOWN_MEMBER }],
  })
}
