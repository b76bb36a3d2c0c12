const DONE = 'The task is completed.'

/**
 * The result of a run as JSON text. It is always an object with a `message` (SPEC 2.5): an object
 * without one gains one, any other value becomes `{ message, value }`.
 * Throws a `TypeError` when the value can't be written as JSON (a circle, a BigInt).
 */
export function toResultText(value: unknown): string {
  const text = JSON.stringify(value) as string | undefined
  if (text === undefined) return `{"message":"${DONE}"}`
  if (!text.startsWith('{')) return `{"message":"${DONE}","value":${text}}`
  // The usual case: no need to look further.
  if (text.startsWith('{"message":"')) return text
  // What was written decides, not the object: toJSON may have changed it, and some members are not
  // written.
  const message = text.includes('"message":') ? (JSON.parse(text) as { message?: unknown }).message : undefined
  if (typeof message === 'string') return text
  if (message !== undefined) return `{"message":"${DONE}","value":${text}}`
  return text === '{}' ? `{"message":"${DONE}"}` : `{"message":"${DONE}",${text.slice(1)}`
}
