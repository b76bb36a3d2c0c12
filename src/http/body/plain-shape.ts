import type { JsonShape } from './json-shape.js'

/** A shape of plain objects, arrays, strings, numbers and booleans, with a fixed depth. */
export interface PlainShape {
  /** JSON Schema with `type`, `properties` and `items` only. */
  readonly schema: Readonly<Record<string, unknown>>
  /** Result of `typeof`, which suffices for a string and a boolean. */
  readonly type: string
  /** True if a serialiser of `schema` writes the value as `JSON.stringify` does. */
  fits(value: unknown): boolean
}

/** Ends the reading of a recursive shape, or of one that repeats its parts in many places. */
const MAX_PARTS = 1000

/** Returns `undefined` if the shape has open objects, several types for a value, or recursion. */
export function plainShapeOf(shape: JsonShape): PlainShape | undefined {
  let parts = 0
  const plain = (its: JsonShape): PlainShape | undefined => {
    parts++
    if (parts > MAX_PARTS) return undefined
    switch (its.type) {
      case 'object': return objectOf(its, plain)
      case 'array': return arrayOf(its, plain)
      default: return leafOf(its)
    }
  }
  return plain(shape)
}

type Plain = (shape: JsonShape) => PlainShape | undefined

function leafOf({ type, properties, items }: JsonShape): PlainShape | undefined {
  if (properties !== undefined || items !== undefined) return undefined
  if (type !== 'string' && type !== 'boolean' && type !== 'number') return undefined
  const fits = (value: unknown): boolean => {
    return typeof value === type && (typeof value !== 'number' || Number.isFinite(value))
  }
  return { schema: { type }, type, fits }
}

function arrayOf({ properties, items }: JsonShape, plain: Plain): PlainShape | undefined {
  const item = properties === undefined && items !== undefined ? plain(items) : undefined
  if (item === undefined) return undefined
  const fits = (value: unknown): boolean => {
    if (!Array.isArray(value) || hasToJson(value)) return false
    for (let at = 0; at < value.length; at++) if (!item.fits(value[at])) return false
    return true
  }
  return { schema: { type: 'array', items: item.schema }, type: 'object', fits }
}

function objectOf({ properties, items, isOpen }: JsonShape, plain: Plain): PlainShape | undefined {
  if (properties === undefined || items !== undefined || isOpen) return undefined
  const members = new Map<string, PlainShape>()
  for (const [name, shape] of properties) {
    const member = plain(shape)
    if (member === undefined) return undefined
    members.set(name, member)
  }
  const schemas = [...members].map(([name, { schema }]) => [name, schema] as const)
  return {
    schema: { type: 'object', properties: Object.fromEntries(schemas) },
    type: 'object',
    fits: (value) => isPlainObject(value) && membersFit(value, members),
  }
}

type PlainObject = Readonly<Record<string, unknown>>

function membersFit(value: PlainObject, members: ReadonlyMap<string, PlainShape>): boolean {
  let found = 0
  for (const name of Object.keys(value)) {
    const member = members.get(name)
    if (member === undefined) continue
    found++
    const its = value[name]
    if (its === undefined) continue
    // Calls no function for a leaf, because most members are leaves.
    const type = typeof its
    if (type !== member.type) return false
    if (type === 'number' ? !Number.isFinite(its) : type === 'object' && !member.fits(its)) {
      return false
    }
  }
  return found === members.size || !hasOthers(value, members)
}

/** True for a property that the serialiser would read, but that is inherited or not enumerable. */
function hasOthers(value: PlainObject, members: ReadonlyMap<string, PlainShape>): boolean {
  for (const name of members.keys()) {
    if (value[name] !== undefined && !Object.prototype.propertyIsEnumerable.call(value, name)) {
      return true
    }
  }
  return false
}

function isPlainObject(value: unknown): value is PlainObject {
  if (typeof value !== 'object' || value === null) return false
  const prototype: unknown = Object.getPrototypeOf(value)
  if (prototype !== Object.prototype && prototype !== null) return false
  return !Array.isArray(value) && !hasToJson(value)
}

function hasToJson(value: object): boolean {
  return (value as { readonly toJSON?: unknown }).toJSON !== undefined
}
