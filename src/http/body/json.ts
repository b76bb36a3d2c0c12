import secureJson from 'secure-json-parse'
import { httpError, type HttpError } from '../errors.js'
import { Json } from '../../runtime/json.js'
import { checkExact, inexactValues, mayBeInexact } from './exact-json.js'
import { jsonFault } from './json-fault.js'
import { Buffer } from 'node:buffer'

/** Words in every rejected key or its value, unless some of their letters are escaped. */
const UNSAFE_WORDS = /__proto__|prototype/
const ESCAPED_LETTER = /\\u00[4-7]/
const BYTE_ORDER_MARK = 0xfeff
/** Leaves a byte order mark out. */
const decoder = new TextDecoder('utf-8', { fatal: true })

/**
 * Parses UTF-8 (RFC 8259 section 8.1). Throws what `jsonTextOf` and `parseJson` do, or `inexact_value` if a
 * value would change.
 */
export function jsonOfBytes(bytes: Uint8Array): Json {
  const text = jsonTextOf(bytes)
  const value = parseJson(text)
  if (mayBeInexact(text)) checkExact(inexactValues(text))
  return Json.of(value, text)
}

/** Decodes bytes that should be JSON. Throws `malformed_json` or `missing_body`. */
export function jsonTextOf(bytes: Uint8Array): string {
  if (bytes.byteLength === 0) throw httpError('missing_body')
  try {
    return decoder.decode(bytes)
  } catch {
    // No cause, because bytes from a client are no failure of the application.
    throw httpError('malformed_json', {
      message: 'The body is not valid JSON: it is not UTF-8.',
      details: [{ pointer: '', message: 'The text is not UTF-8.' }],
    })
  }
}

/**
 * Parses JSON. Rejects keys that could change a prototype once copied: `__proto__`, and
 * `constructor` with a `prototype` in it. Errors never quote the text.
 * @throws {HttpError} `malformed_json` with the place, `unsafe_key`, or `nested_too_deep`
 */
export function parseJson(text: string, maxDepth = MAX_JSON_DEPTH): unknown {
  let value: unknown
  try {
    const suspect = mayHoldUnsafeKey(text) || text.charCodeAt(0) === BYTE_ORDER_MARK
    value = suspect
      ? secureJson.parse(text, undefined, { protoAction: 'error', constructorAction: 'error' })
      : JSON.parse(text) as unknown
  } catch {
    throw faultOf(text)
  }
  if (text.length > SHALLOW_UNITS && isTooDeep(value, maxDepth)) throw httpError('nested_too_deep')
  return value
}

/** Returns true if JSON text may have a rejected key. Costs a fiftieth of parsing it. */
export function mayHoldUnsafeKey(text: string): boolean {
  return UNSAFE_WORDS.test(text) || (text.includes('\\u00') && ESCAPED_LETTER.test(text))
}

function faultOf(text: string): HttpError {
  const fault = jsonFault(text)
  // The text is valid JSON, so a key was rejected.
  if (fault === undefined) return httpError('unsafe_key')
  const place = `line ${fault.line}, column ${fault.column} (offset ${fault.offset})`
  return httpError('malformed_json', {
    message: `The body is not valid JSON: at ${place}, ${fault.expected} was expected.`,
    details: [{ pointer: '', message: `${place}: ${fault.expected} was expected.` }],
  })
}

/** Returns true if a parsed value has a key that `parseJson` rejects. It may be circular. */
export function hasUnsafeKey(value: unknown): boolean {
  if (!isObject(value)) return false
  const seen = new Set<object>([value])
  for (const node of seen) {
    if (Array.isArray(node)) {
      for (const child of node as unknown[]) if (isObject(child)) seen.add(child)
    } else if (addMembers(node, seen)) return true
  }
  return false
}

function addMembers(node: object, seen: Set<object>): boolean {
  for (const key in node) {
    const child = (node as Record<string, unknown>)[key]
    if (key === '__proto__') return true
    if (!isObject(child)) continue
    if (key === 'constructor' && Object.hasOwn(child, 'prototype')) return true
    seen.add(child)
  }
  return false
}

function isObject(value: unknown): value is object {
  return typeof value === 'object' && value !== null && !ArrayBuffer.isView(value)
}

/** Maximum depth of JSON. Deeper values would overflow the stack of recursive code. */
export const MAX_JSON_DEPTH = 512

/** A text of this many UTF-16 units or fewer is not too deep: each level takes two brackets. */
export const SHALLOW_UNITS = 2 * MAX_JSON_DEPTH + 1

/** Maximum number of opening brackets that `shallowUnits` counts. */
const MOST_LISTS = 256

/**
 * Returns the length in UTF-16 units up to which a line of `text` cannot be nested too deeply: a
 * level of an object takes five units, such as `{"":` and `}`.
 */
export function shallowUnits(text: string): number {
  let lists = 0
  for (let at = text.indexOf('['); at !== -1; at = text.indexOf('[', at + 1)) {
    if (++lists > MOST_LISTS) return SHALLOW_UNITS
  }
  return 5 * MAX_JSON_DEPTH + 1 - 3 * lists
}

/**
 * Returns true if arrays and objects are nested more than `most` levels. Circular values count as
 * nested too deeply.
 */
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

export function isWholeNumber(value: unknown): value is number {
  return Number.isSafeInteger(value) && Number(value) >= 0
}

export function isJsonObject(value: unknown): value is Readonly<Record<string, unknown>> {
  return typeof value === 'object' && value !== null && !Array.isArray(value)
}

/** Returns true if a value takes more than `limit` bytes as JSON. It must not be too deep. */
export function isJsonLarger(value: unknown, limit: number): boolean {
  return left(value, limit) < 0
}

function left(value: unknown, limit: number): number {
  if (typeof value === 'string') return limit - Buffer.byteLength(value) - 2
  if (value === null) return limit - 4
  if (typeof value === 'number' || typeof value === 'bigint') return limit - String(value).length
  // `true` and `false`. Other types are not JSON.
  if (typeof value !== 'object') return limit - (value === false ? 5 : 4)
  if (ArrayBuffer.isView(value)) return limit - value.byteLength
  // Two brackets, and one comma less than there are properties.
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
