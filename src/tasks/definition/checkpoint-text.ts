import { refuseEmptied } from './emptied-values.js'

/** Maximum size of a checkpoint as JSON text, in bytes. */
export const MAX_CHECKPOINT_BYTES = 65_536

/**
 * Returns a checkpoint of a task as JSON text.
 *
 * @param task - name of the definition, for messages
 * @throws {TypeError} The value is not JSON, or its text is longer than 64 KiB.
 */
export function checkpointText(task: string, value: unknown): string {
  const text = jsonOf(task, value)
  const bytes = Buffer.byteLength(text)
  if (bytes <= MAX_CHECKPOINT_BYTES) return text
  throw new TypeError(`The checkpoint of ${task} has ${bytes} bytes as JSON; at most`
    + ` ${MAX_CHECKPOINT_BYTES} are allowed. Save a position, and keep data elsewhere`)
}

function jsonOf(task: string, value: unknown): string {
  try {
    const text = JSON.stringify(value, refuseFunctions) as string | undefined
    if (text === undefined) throw new TypeError('it is undefined')
    refuseEmptied(value, text)
    return text
  } catch (error) {
    const why = error instanceof Error ? error.message : String(error)
    throw new TypeError(`The checkpoint of ${task} is not JSON: ${why}`, { cause: error })
  }
}

/** Refuses what JSON leaves out of objects without an error. */
function refuseFunctions(name: string, value: unknown): unknown {
  if (typeof value !== 'function' && typeof value !== 'symbol') return value
  throw new TypeError(`${name === '' ? 'it' : `its member ${name}`} is a ${typeof value}`)
}
