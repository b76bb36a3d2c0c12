import type { TaskFiles } from '../tasks/definition/run-context.js'
import type { ExportText } from './export-text.js'
import type { RecordCursor } from './record-cursor.js'

/** Maximum number of records that are serialised before the length of the text is checked. */
const BATCH = 100

/** Settings for the parts of an export. */
export interface PartsSettings<T> {
  readonly files: TaskFiles
  readonly type: string
  /** Maximum number of records of a part. */
  readonly partRecords: number
  /** Returns the file name of a part, from 1. */
  readonly nameOf: (part: number) => string
  readonly textOf: () => ExportText<T>
  /** Called with the number of records that were written. */
  readonly onProgress: (records: number) => void
  /** Called after each part, with the number of records that were written. */
  readonly onPart: (records: number) => Promise<void>
}

/** Position in an export: parts that are complete, and their records. */
export interface ExportPosition {
  readonly parts: number
  readonly records: number
}

/**
 * Writes the records of a cursor as files, one part after the other. The first part is written even
 * if there is no record. Returns the position at the end.
 *
 * @param from - parts that an earlier run has written; the cursor begins after their records
 */
export async function writeParts<T>(
  cursor: RecordCursor<T>, settings: PartsSettings<T>, from: ExportPosition,
): Promise<ExportPosition> {
  const { files, nameOf, type, onPart } = settings
  let { parts, records } = from
  const count = (added: number): void => {
    records += added
    settings.onProgress(records)
  }
  while (parts === 0 || await cursor.hasNext()) {
    await files.write(nameOf(parts + 1), partBytes(cursor, settings, count), { type })
    parts++
    await onPart(records)
  }
  return { parts, records }
}

/** Yields the bytes of one part. */
async function* partBytes<T>(
  cursor: RecordCursor<T>, { partRecords, textOf }: PartsSettings<T>,
  count: (added: number) => void,
): AsyncGenerator<Uint8Array, void, undefined> {
  const text = textOf()
  for (let left = partRecords; left > 0;) {
    const records = await cursor.take(Math.min(left, BATCH))
    if (records.length === 0) break
    text.add(records)
    left -= records.length
    count(records.length)
    if (text.full) yield text.take()
  }
  text.end()
  yield text.take()
}
