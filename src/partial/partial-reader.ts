import type { Store } from '../stores/store.js'
import { decode, logKey, partKey, type TaskOfLog } from './partial-log.js'

/** The last partial result that a reader has: the id of its log, and its number. */
export interface Position {
  readonly log: string
  readonly last: number
}

/** Log of a reader of a task that has not emitted yet. */
const NOT_YET = 'none'
/** Log of a reader that was told that all is gone. */
const GONE = 'gone'

/** Returns the position that a client has sent, if it is one. */
export function parsePosition(text: string): Position | undefined {
  const [, log, last] = /^([a-z0-9]{1,16})-(\d{1,15})$/.exec(text) ?? []
  return log === undefined ? undefined : { log, last: Number(last) }
}

/** Returns a position as clients see it, the id of a partial result. */
export function toId({ log, last }: Position): string {
  return `${log}-${last}`
}

/** A partial result as JSON, and the position of a reader that has it. */
interface PositionedResult extends Position {
  readonly text: string
}

/** Some partial results after a position. */
export interface Page {
  readonly results: readonly PositionedResult[]
  /** Position of a reader that has the page. */
  readonly position: Position
  /** True if there are more. */
  readonly isMore: boolean
  /** True if some before the results of this page are missing. */
  readonly isGap: boolean
}

/**
 * Reads the partial results after a position, those of one part or the newest ones, so that a slow reader holds no more.
 * Some may be missing, because they were dropped.
 *
 * @param hasRun - true for a final task that has run, so that nothing means that all is gone
 */
export async function readAfter(
  store: Store, task: TaskOfLog, position: Position | undefined, hasRun: boolean,
): Promise<Page> {
  const entry = task.external === undefined ? undefined : await store.get(logKey(task))
  if (!entry) {
    const isGone = hasRun && task.external !== undefined
    const now = isGone ? { log: GONE, last: 0 } : position ?? { log: NOT_YET, last: 0 }
    return { results: [], position: now, isMore: false, isGap: isGone && position?.log !== GONE }
  }
  const { id, parts, first, tail } = decode(entry)
  const isOther = position !== undefined && position.log !== NOT_YET && position.log !== id
  const last = position?.log === id ? position.last : 0
  const pageOf = (texts: readonly string[], from: number, isMore: boolean): Page => {
    const results = texts.map((text, at) => ({ log: id, last: from + at, text })).filter((result) => result.last > last)
    const next = results[0]?.last ?? from + texts.length
    return {
      results, isMore, isGap: isOther || next > last + 1, position: { log: id, last: Math.max(last, from + texts.length - 1) },
    }
  }
  for (const part of parts) {
    if (part.first + part.count - 1 <= last) continue
    const older = await store.get(partKey(task, part))
    // Evicted: a gap.
    if (older) return pageOf(older.value.split('\n'), part.first, true)
  }
  return pageOf(tail, first, false)
}
