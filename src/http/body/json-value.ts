import { Buffer } from 'node:buffer'

/**
 * Deeper JSON is refused: whatever walks through a value by recursion, `JSON.stringify` first of
 * all, would run out of stack.
 */
export const MAX_JSON_DEPTH = 512

/**
 * A text of so many UTF-16 units or fewer is not nested more deeply: each level takes two brackets.
 */
export const SHALLOW_UNITS = 2 * MAX_JSON_DEPTH + 1

/** Beyond so many lists a text is not looked at any further. */
const MOST_LISTS = 256

/**
 * A line of `text`, or all of it, that has so many UTF-16 units or fewer is not nested more deeply,
 * which is more than `SHALLOW_UNITS` where there are few lists: an object with an object or a list
 * in it takes five, `{"":` and `}`.
 */
export function shallowUnits(text: string): number {
  let lists = 0
  for (let at = text.indexOf('['); at !== -1; at = text.indexOf('[', at + 1)) {
    if (++lists > MOST_LISTS) return SHALLOW_UNITS
  }
  return 5 * MAX_JSON_DEPTH + 1 - 3 * lists
}

/**
 * Whether lists and objects are nested more deeply than `most` levels. A value that holds itself
 * is.
 */
export function isTooDeep(value: unknown, most = MAX_JSON_DEPTH): boolean {
  return most !== Infinity && typeof value === 'object' && value !== null && !ArrayBuffer.isView(value) && isDeeper(value, most)
}

function isDeeper(node: object, left: number): boolean {
  if (left === 0) return true
  if (Array.isArray(node)) {
    for (const child of node as unknown[]) if (typeof child === 'object' && child !== null && isDeeper(child, left - 1)) return true
    return false
  }
  for (const key in node) {
    const child = (node as Readonly<Record<string, unknown>>)[key]
    if (typeof child === 'object' && child !== null && isDeeper(child, left - 1)) return true
  }
  return false
}

/** Whether a JSON value is an object: neither a list nor null. */
export function isJsonObject(value: unknown): value is Readonly<Record<string, unknown>> {
  return typeof value === 'object' && value !== null && !Array.isArray(value)
}

/**
 * Whether a value that somebody else parsed takes more than `limit` bytes as JSON, without white
 * space and escapes. Looks no further than that. The value must not be nested too deeply, see
 * `isTooDeep`.
 */
export function isJsonLarger(value: unknown, limit: number): boolean {
  return left(value, limit) < 0
}

/** Bytes of `limit` that remain after the value; negative when it does not fit. */
function left(value: unknown, limit: number): number {
  if (typeof value === 'string') return limit - Buffer.byteLength(value) - 2
  if (value === null) return limit - 4
  if (typeof value === 'number' || typeof value === 'bigint') return limit - String(value).length
  // `true` and `false`; for others JSON has no word.
  if (typeof value !== 'object') return limit - (value === false ? 5 : 4)
  if (ArrayBuffer.isView(value)) return limit - value.byteLength
  // Two brackets, and a comma less than there are members.
  let rest = limit - 1
  if (Array.isArray(value)) {
    for (const item of value as unknown[]) {
      rest = left(item, rest - 1)
      if (rest < 0) return rest
    }
    return value.length === 0 ? rest - 1 : rest
  }
  let empty = true
  for (const key in value) {
    empty = false
    rest = left((value as Readonly<Record<string, unknown>>)[key], rest - Buffer.byteLength(key) - 4)
    if (rest < 0) return rest
  }
  return empty ? rest - 1 : rest
}
