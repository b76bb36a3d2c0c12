import { childPointer } from '../../schema/pointer.js'
import type { Checkpoint } from './run-context.js'

type NotJson = ((...args: never) => unknown) | bigint | symbol
  | ReadonlyMap<unknown, unknown> | ReadonlySet<unknown> | WeakKeyed | ArrayBuffer | ArrayBufferView
type WeakKeyed = WeakMap<WeakKey, unknown> | WeakSet<WeakKey>

type Scalar = string | number | boolean | null | undefined

/**
 * The type of a value after `JSON.parse(JSON.stringify(value))`: a `Date` becomes a `string`, and
 * `undefined` in an array becomes `null`.
 */
export type JsonForm<T> =
  unknown extends T ? T
    : T extends Scalar ? T
      : T extends {
        /** Returns the JSON form. */
        toJSON: (...args: never) => infer J
      } ? JsonForm<J>
        : T extends NotJson ? never
          : T extends readonly unknown[] ? { [K in keyof T]: JsonItem<T[K]> }
            : T extends object ? { [K in keyof T]: JsonForm<T[K]> }
              : T

type JsonItem<T> = T extends undefined ? null : JsonForm<T>

interface NotJsonError {
  readonly 'JSON cannot carry this value: no function, Map, Set, symbol, bigint or buffer': never
}

/** `T` if JSON can carry it. Otherwise a type to which `T` is not assignable. */
export type JsonSafe<T> =
  unknown extends T ? unknown
    : T extends Scalar | void ? T
      : T extends {
        /** Returns the JSON form. */
        toJSON: (...args: never) => unknown
      } ? T
        : T extends NotJson ? NotJsonError
          : T extends object ? { [K in keyof T]: JsonSafe<T[K]> }
            : T

/** @throws {TypeError} JSON cannot carry the value: a circle, a BigInt, a Map, a Set, a promise. */
export function toResultText(value: unknown): string {
  const text = (JSON.stringify(value) as string | undefined) ?? 'null'
  rejectEmptied(value, text)
  return text
}

/** Maximum size of a checkpoint as JSON text, in bytes. */
export const MAX_CHECKPOINT_BYTES = 65_536

/** @throws {TypeError} The value is not JSON, or longer than 64 KiB. */
export function checkpointText(task: string, value: unknown): string {
  let text: string | undefined
  try {
    text = JSON.stringify(value, rejectFunctions)
    if (text === undefined) throw new TypeError('it is undefined')
    rejectEmptied(value, text)
  } catch (error) {
    const why = error instanceof Error ? error.message : String(error)
    throw new TypeError(`The checkpoint of ${task} is not JSON: ${why}`, { cause: error })
  }
  const bytes = Buffer.byteLength(text)
  if (bytes <= MAX_CHECKPOINT_BYTES) return text
  throw new TypeError(`The checkpoint of ${task} has ${bytes} bytes as JSON; at most`
    + ` ${MAX_CHECKPOINT_BYTES} are allowed. Save a position, and keep data elsewhere`)
}

/** Throws for values that JSON leaves out of objects without an error. */
function rejectFunctions(name: string, value: unknown): unknown {
  if (typeof value !== 'function' && typeof value !== 'symbol') return value
  throw new TypeError(`${name === '' ? 'it' : `its property ${name}`} is a ${typeof value}`)
}

const AS_OBJECT = 'Return an object: Object.fromEntries(map).'
const AS_ARRAY = 'Return an array.'

/** Types that JSON writes as `{}`, and what to do instead. */
const EMPTIED: Readonly<Record<string, string>> = {
  Map: AS_OBJECT, WeakMap: AS_OBJECT, Set: AS_ARRAY, WeakSet: AS_ARRAY, ArrayBuffer: AS_ARRAY,
  Promise: 'Await it.',
}

/**
 * Throws a `TypeError` for a value that JSON would write as `{}`. Searches for one only if the text
 * has a `{}`.
 *
 * @param text - `value` as JSON, which proves that it has no circles
 */
export function rejectEmptied(value: unknown, text: string): void {
  if (!text.includes('{}')) return
  const open: (readonly [value: unknown, pointer: string])[] = [[value, '']]
  for (let next = open.pop(); next !== undefined; next = open.pop()) {
    const [each, pointer] = next
    if (!isWritten(each)) continue
    const kind = Object.prototype.toString.call(each).slice('[object '.length, -1)
    if (Object.hasOwn(EMPTIED, kind)) {
      const place = pointer === '' ? 'it' : `its property ${pointer}`
      throw new TypeError(`${place} is of type ${kind}, which JSON writes as {}. ${EMPTIED[kind]}`)
    }
    for (const key of Object.keys(each)) open.push([each[key], childPointer(pointer, key)])
  }
}

function isWritten(value: unknown): value is Readonly<Record<string, unknown>> {
  return typeof value === 'object' && value !== null
    && typeof (value as { toJSON?: unknown }).toJSON !== 'function'
}

/** The checkpoint of a definition without the option `checkpoint`. */
export const UNDECLARED: Checkpoint = {
  value: undefined,
  async save() {
    throw new TypeError('checkpoint.save: pass defineTask the option checkpoint,'
      + ' which is the schema of the value')
  },
}

/** Returns a checkpoint that checks values and keeps nothing. */
export function unsavedCheckpoint(
  { name, checkpoint }: { readonly name: string, readonly checkpoint?: unknown },
): Checkpoint {
  if (checkpoint === undefined) return UNDECLARED
  return {
    value: undefined,
    async save(value) { checkpointText(name, value) },
  }
}
