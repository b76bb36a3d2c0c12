import type { TaskEngine } from '../../engine/engine.js'
import { LONGEST_MS } from '../definition/bounds.js'

/** The start of a task that was submitted for later. */
export interface Start {
  /** Time of the start, in milliseconds since 1970. */
  readonly at: number
  /** Time until the start, in milliseconds. */
  readonly delayMs: number
}

/** Options of a submission for its start. */
interface StartOptions {
  readonly startAt?: Date | undefined
  readonly delayMs?: number | undefined
}

/**
 * Returns the start that the options of a submission ask for; `undefined` for now.
 *
 * @throws {TypeError} The options make no sense.
 */
export async function startOf(
  engine: TaskEngine, { startAt, delayMs }: StartOptions,
): Promise<Start | undefined> {
  if (startAt === undefined && (delayMs ?? 0) === 0) return undefined
  if (startAt !== undefined && delayMs !== undefined) {
    throw new TypeError('pass startAt or delayMs, not both')
  }
  if (startAt !== undefined && !(startAt instanceof Date && !Number.isNaN(startAt.getTime()))) {
    throw new TypeError('startAt must be a valid Date')
  }
  const now = await engine.now()
  const at = startAt?.getTime() ?? now + Math.ceil(delayMs ?? 0)
  const start = { at, delayMs: delayMs ?? at - now }
  if (delayMs === undefined && start.delayMs <= 0) return undefined
  if (start.delayMs >= 0 && start.delayMs <= LONGEST_MS) return start
  throw new TypeError('delayMs must be from 0 to 100 years, and startAt less than 100 years ahead')
}
