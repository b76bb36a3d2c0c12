import { isJsonObject } from '../http/body/json.js'
import type { Schema } from '../schema/schema.js'
import { MAX_CHECKPOINT_BYTES } from '../tasks/definition/json-values.js'
import {
  type TaskContext, type TaskFiles, areKeepable, type KeepableFiles, type KeptFile,
} from '../tasks/definition/run-context.js'
import type { ExportText } from './export-text.js'
import type { RecordCursor } from './record-cursor.js'

/** Maximum number of records that are serialised before the length of the text is checked. */
const BATCH = 100

export interface PartsSettings<T> {
  readonly files: TaskFiles
  readonly type: string
  readonly partRecords: number
  readonly nameOf: (part: number) => string
  readonly textOf: () => ExportText<T>
  /** Called with the number of records that were written. */
  readonly onProgress: (records: number) => void
  /** Called after each part, with the number of records that were written. */
  readonly onPart: (records: number) => Promise<void>
}

export interface ExportPosition {
  readonly parts: number
  readonly records: number
}

/**
 * Writes the records of a cursor as files, one part after the other. Returns the position at the
 * end.
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
    text.addAll(records)
    left -= records.length
    count(records.length)
    if (text.full) yield text.take()
  }
  text.end()
  yield text.take()
}

export interface PartsForm {
  /** Digest of the options that decide what the parts look like. */
  readonly settings: string
  readonly type: string
  readonly nameOf: (part: number) => string
}

/** Saves the finished parts of an export, and takes over those of an earlier run. */
export class PartsCheckpoint {
  /** Columns of CSV that an earlier run took from the first record. */
  columns: readonly string[] | undefined

  private constructor(
    private readonly files: KeepableFiles, private readonly form: PartsForm,
    private readonly checkpoint: TaskContext<unknown, SavedExport>['checkpoint'],
  ) {}

  /** Returns `undefined` if no run can take over files of this one, as in a test. */
  static of(
    { files, checkpoint }: TaskContext<unknown, SavedExport>, form: PartsForm,
  ): PartsCheckpoint | undefined {
    return areKeepable(files) ? new PartsCheckpoint(files, form, checkpoint) : undefined
  }

  /** Takes over the parts of an earlier run. Returns the position after them. */
  async resume(): Promise<ExportPosition> {
    const { checkpoint: { value: saved }, files, form: { type, nameOf } } = this
    const isKept = saved !== undefined
      && await files.adopt(unpackParts(saved, type, nameOf))
    if (!isKept) return { parts: 0, records: 0 }
    this.columns = saved.columns
    return { parts: saved.parts.length, records: saved.records }
  }

  /** Saves the position after a part. */
  async save(records: number, columns?: readonly string[]): Promise<void> {
    const { form: { settings } } = this
    const packed = packParts(await this.files.keep())
    const saved: SavedExport = { settings, records, ...columns && { columns }, ...packed }
    if (Buffer.byteLength(JSON.stringify(saved)) > MAX_CHECKPOINT_BYTES) return
    await this.checkpoint.save(saved)
  }
}

/** Begin of the digest of a file. A colon ends it. */
const DIGEST = 'sha-256=:'

/** Checkpoint of an export. It is short, because a checkpoint of 1000 parts has to fit. */
export interface SavedExport {
  /** Digest of the options that decide what the parts look like. */
  readonly settings: string
  readonly records: number
  /** Columns of CSV, if they are those of the first record. */
  readonly columns?: readonly string[] | undefined
  readonly runs: readonly (readonly [run: string, parts: number])[]
  /** Size and SHA-256 of each part: `<bytes>:<base64>`. */
  readonly parts: readonly string[]
}

/**
 * Returns the schema of the checkpoint of an export. It rejects a checkpoint of other settings,
 * because its parts would not fit to those that follow.
 */
export function savedExport(settings: string): Schema<SavedExport> {
  const validate = (value: unknown) => {
    if (!isSaved(value)) return fault('is not the position of an export')
    if (value.settings !== settings) return fault('was saved with other options of exportTask')
    return { value }
  }
  return { '~standard': { version: 1, vendor: 'longhaul', validate } }
}

/** Returns finished parts as a checkpoint stores them. The slot of each is its index. */
export function packParts(
  parts: readonly Pick<KeptFile, 'blob' | 'size' | 'digest'>[],
): Pick<SavedExport, 'runs' | 'parts'> {
  const runs: [run: string, parts: number][] = []
  for (const { blob } of parts) {
    const run = blob.slice(0, blob.lastIndexOf('/'))
    const last = runs.at(-1)
    if (last?.[0] === run) last[1]++
    else runs.push([run, 1])
  }
  const texts = parts.map(({ size, digest }) => `${size}:${digest.slice(DIGEST.length, -1)}`)
  return { runs, parts: texts }
}

export function unpackParts(
  { runs, parts }: SavedExport, type: string, nameOf: (part: number) => string,
): readonly KeptFile[] {
  const runOf = runs.flatMap(([run, count]) => Array.from({ length: count }, () => run))
  return parts.map((part, at) => {
    const end = part.indexOf(':')
    const [size, sha256] = [Number(part.slice(0, end)), part.slice(end + 1)]
    return {
      name: nameOf(at + 1), size, type, digest: `${DIGEST}${sha256}:`, blob: `${runOf[at]}/${at}`,
    }
  })
}

function fault(message: string) {
  return { issues: [{ message }] }
}

function isSaved(value: unknown): value is SavedExport {
  if (!isJsonObject(value) || typeof value['settings'] !== 'string') return false
  const { records, columns = [], runs, parts } = value
  const lists = [columns, runs, parts]
  return Number.isSafeInteger(records) && lists.every(Array.isArray)
}
