import { Buffer } from 'node:buffer'

/** Maximum depth of JSON. Deeper values would overflow the stack of recursive code. */
export const MAX_JSON_DEPTH = 512

/**
 * A text of this many UTF-16 units or fewer cannot be deeper, since each level takes two brackets.
 */
export const SHALLOW_UNITS = 2 * MAX_JSON_DEPTH + 1

/** Maximum number of opening brackets that `shallowUnits` counts. */
const MOST_LISTS = 256

/**
 * Returns the length in UTF-16 units up to which a line of `text` cannot be nested too deeply. With
 * few arrays that is more than `SHALLOW_UNITS`, because a level of an object takes five units, such
 * as `{"":` and `}`.
 */
export function shallowUnits(text: string): number {
  let lists = 0
  for (let at = text.indexOf('['); at !== -1; at = text.indexOf('[', at + 1)) {
    if (++lists > MOST_LISTS) return SHALLOW_UNITS
  }
  return 5 * MAX_JSON_DEPTH + 1 - 3 * lists
}

/** Returns true if arrays and objects are nested more than `most` levels. Circular values are. */
export function isTooDeep(value: unknown, most = MAX_JSON_DEPTH): boolean {
  if (most === Infinity || typeof value !== 'object' || value === null) return false
  return !ArrayBuffer.isView(value) && isDeeper(value, most)
}

function isDeeper(node: object, left: number): boolean {
  if (left === 0) return true
  if (Array.isArray(node)) {
    for (const child of node as unknown[]) {
      if (typeof child === 'object' && child !== null && isDeeper(child, left - 1)) return true
    }
    return false
  }
  for (const key in node) {
    const child = (node as Readonly<Record<string, unknown>>)[key]
    if (typeof child === 'object' && child !== null && isDeeper(child, left - 1)) return true
  }
  return false
}

/** Returns true if a value is a whole number from 0 that JSON keeps exactly. */
export function isWholeNumber(value: unknown): value is number {
  return Number.isSafeInteger(value) && Number(value) >= 0
}

/** Returns true if a JSON value is an object: neither an array nor `null`. */
export function isJsonObject(value: unknown): value is Readonly<Record<string, unknown>> {
  return typeof value === 'object' && value !== null && !Array.isArray(value)
}

/**
 * Returns true if a parsed value takes more than `limit` bytes as JSON, without white space and
 * escapes. Stops reading at the limit. The value must not be nested too deeply, see `isTooDeep`.
 */
export function isJsonLarger(value: unknown, limit: number): boolean {
  return left(value, limit) < 0
}

/** Returns the bytes of `limit` that remain after the value; negative if it does not fit. */
function left(value: unknown, limit: number): number {
  if (typeof value === 'string') return limit - Buffer.byteLength(value) - 2
  if (value === null) return limit - 4
  if (typeof value === 'number' || typeof value === 'bigint') return limit - String(value).length
  // `true` and `false`. Other types are not JSON.
  if (typeof value !== 'object') return limit - (value === false ? 5 : 4)
  if (ArrayBuffer.isView(value)) return limit - value.byteLength
  // Two brackets, and one comma less than there are members.
  let rest = limit - 1
  if (Array.isArray(value)) {
    for (const item of value as unknown[]) {
      rest = left(item, rest - 1)
      if (rest < 0) return rest
    }
    return value.length === 0 ? rest - 1 : rest
  }
  let empty = true
  const members = value as Readonly<Record<string, unknown>>
  for (const key in members) {
    empty = false
    rest = left(members[key], rest - Buffer.byteLength(key) - 4)
    if (rest < 0) return rest
  }
  return empty ? rest - 1 : rest
}
