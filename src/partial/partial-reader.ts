import type { Store } from '../stores/store.js'
import { logRecord, logPartKey, writingOf, type TaskOfLog } from './partial-log.js'

/** The last partial result that a reader has. */
export interface Position {
  /** Id of the `Writing` that the result belongs to. */
  readonly by: string
  /** Number of the result. */
  readonly last: number
  /** Version of the final task whose end the reader has received. */
  readonly version?: number
}

/** Position of a reader of a task that has not emitted yet. */
const NOT_YET: Position = { by: 'none', last: 0 }
/** Position of a reader that was notified that all results were deleted. */
const GONE: Position = { by: 'gone', last: 0 }

/** Returns the position that a client has sent, if it is one. */
export function parsePosition(text: string): Position | undefined {
  const [, by, last, version] = /^([a-z0-9]{1,16})-(\d{1,15})(?:-(\d{1,15}))?$/.exec(text) ?? []
  return by === undefined ? undefined : { by, last: Number(last), ...version !== undefined && { version: Number(version) } }
}

/** Returns a position as clients see it, the id of a partial result or of the end. */
export function toId({ by, last, version }: Position): string {
  return version === undefined ? `${by}-${last}` : `${by}-${last}-${version}`
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
  /** True if more results follow. */
  readonly isMore: boolean
  /** Position of a reader that has all before the results of this page, if some of these are missing. */
  readonly gap: Position | undefined
}

/**
 * Reads partial results after a position: those of one part, or the newest ones. So a slow reader
 * holds at most one part. Results may be missing, because they were dropped.
 *
 * @param hasRun - true for a final task whose run has begun: without an entry, all results were
 * lost
 */
export async function readAfter(
  store: Store, task: TaskOfLog, position: Position | undefined, hasRun: boolean,
): Promise<Page> {
  const log = task.external === undefined ? undefined : await logRecord(store, task).read()
  if (!log) {
    const gap = hasRun && position?.by !== GONE.by ? GONE : undefined
    return { results: [], position: gap ?? position ?? NOT_YET, isMore: false, gap }
  }
  const { parts, first, tail } = log
  const by = (number: number): string => writingOf(log, number) ?? NOT_YET.by
  const isKnown = position !== undefined && position.last < first + tail.length && position.by === by(position.last)
  const last = isKnown ? position.last : 0
  // One that has nothing misses nothing, whoever wrote the position.
  const isOther = (position?.last ?? 0) > last
  const pageOf = (texts: readonly string[], from: number, isMore: boolean): Page => {
    const results = texts.map((text, at) => ({ by: by(from + at), last: from + at, text })).filter((result) => result.last > last)
    const next = results[0]?.last ?? from + texts.length
    const end = Math.max(last, from + texts.length - 1)
    return {
      results, isMore, position: { by: by(end), last: end },
      gap: isOther || next > last + 1 ? { by: by(next - 1), last: next - 1 } : undefined,
    }
  }
  for (const part of parts) {
    if (part.first + part.count - 1 <= last) continue
    const older = await store.get(logPartKey(task, part))
    // Evicted: a gap.
    if (older) return pageOf(older.value.split('\n'), part.first, true)
  }
  return pageOf(tail, first, false)
}
