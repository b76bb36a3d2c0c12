import { newestOf, storableText } from './stored-failure.js'

/** One line that a run has logged. */
export interface LogLine {
  /** Time, as ISO 8601. */
  readonly at: string
  /** Number of the run. */
  readonly attempt: number
  readonly text: string
}

const MAX_LINES = 100
const MAX_BYTES = 8192
const MAX_LINE_BYTES = 1024

/** Returns the lines with one more. The oldest lines are dropped. */
export function withLine(lines: readonly LogLine[], attempt: number, text: unknown): readonly LogLine[] {
  const line = { at: new Date().toISOString(), attempt, text: storableText(String(text), MAX_LINE_BYTES) }
  return newestOf([...lines, line], MAX_LINES, MAX_BYTES)
}
