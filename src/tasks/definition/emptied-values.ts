import { childPointer } from '../../schema/pointer.js'

/** Objects whose content JSON leaves out: each is written as `{}`. */
const EMPTIED = new Set(['Map', 'Set', 'WeakMap', 'WeakSet', 'Promise', 'ArrayBuffer'])

/**
 * Refuses a `Map`, a `Set`, a promise and the like in a value, because JSON would store `{}` in its
 * place. The types of `defineTask` refuse them too, but a cast or plain JavaScript gets around
 * types.
 *
 * Walks through the value only if its text has a `{}`. So it costs one search in the text.
 *
 * @param text - `value` as JSON, which proves that it has no circles
 * @throws {TypeError} The message has a JSON pointer to the object.
 */
export function refuseEmptied(value: unknown, text: string): void {
  if (!text.includes('{}')) return
  const open: (readonly [value: unknown, pointer: string])[] = [[value, '']]
  for (let next = open.pop(); next !== undefined; next = open.pop()) {
    const [each, pointer] = next
    if (!isWritten(each)) continue
    const kind = Object.prototype.toString.call(each).slice('[object '.length, -1)
    if (EMPTIED.has(kind)) throw emptied(kind, pointer)
    for (const key of Object.keys(each)) open.push([each[key], childPointer(pointer, key)])
  }
}

/** Returns true for an object that JSON writes member by member. */
function isWritten(value: unknown): value is Readonly<Record<string, unknown>> {
  return typeof value === 'object' && value !== null
    && typeof (value as { toJSON?: unknown }).toJSON !== 'function'
}

function emptied(kind: string, pointer: string): TypeError {
  const place = pointer === '' ? 'it' : `its member ${pointer}`
  return new TypeError(`${place} is of type ${kind}, which JSON writes as {}. ${advice(kind)}`)
}

function advice(kind: string): string {
  if (kind === 'Promise') return 'Await it.'
  return kind.endsWith('Map') ? 'Return an object: Object.fromEntries(map).' : 'Return an array.'
}
