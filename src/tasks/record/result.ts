import { refuseEmptied } from '../definition/emptied-values.js'

const DONE = 'The task is completed.'

/**
 * Returns the result of a run as JSON text. It is always an object with a `message` (SPEC 2.5): an
 * object without one gains one, any other value becomes `{ message, value }`.
 *
 * @throws {TypeError} JSON cannot carry the value: a circle, a BigInt, a Map, a Set, a promise.
 */
export function toResultText(value: unknown): string {
  const text = JSON.stringify(value) as string | undefined
  if (text === undefined) return `{"message":"${DONE}"}`
  refuseEmptied(value, text)
  if (!text.startsWith('{')) return `{"message":"${DONE}","value":${text}}`
  // The usual case.
  if (text.startsWith('{"message":"')) return text
  // What was written decides, not the object: toJSON may have changed it, and some members are not
  // written.
  const message = text.includes('"message":')
    ? (JSON.parse(text) as { message?: unknown }).message
    : undefined
  if (typeof message === 'string') return text
  if (message !== undefined) return `{"message":"${DONE}","value":${text}}`
  return text === '{}' ? `{"message":"${DONE}"}` : `{"message":"${DONE}",${text.slice(1)}`
}
