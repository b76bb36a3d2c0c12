import { isJsonObject } from '../http/body/json.js'
import type { Schema } from '../schema/schema.js'
import { MAX_CHECKPOINT_BYTES } from '../tasks/definition/json-values.js'
import {
  areKeepable, type KeptFile, type TaskContext,
} from '../tasks/definition/run-context.js'
import type { ExportText } from './export-text.js'
import type { RecordCursor } from './record-cursor.js'

/** Maximum number of records that are serialised before the length of the text is checked. */
const BATCH = 100

export interface PartsSettings<T> {
  /** Digest of the options that decide on the contents of the parts. */
  readonly digest: string
  readonly type: string
  readonly nameOf: (part: number) => string
  readonly partRecords: number
  readonly textOf: () => ExportText<T>
  readonly onProgress: (records: number) => void
  /** Columns of CSV that are saved with each part, if they are those of the first record. */
  readonly columns: readonly string[] | undefined
}

export interface ExportPosition {
  readonly parts: number
  readonly records: number
}

type ExportContext = Pick<TaskContext<unknown, SavedExport>, 'files' | 'checkpoint'>

export async function writeParts<T>(
  cursor: RecordCursor<T>, settings: PartsSettings<T>, context: ExportContext, from: ExportPosition,
): Promise<ExportPosition> {
  const { nameOf, type } = settings
  let { parts, records } = from
  const count = (added: number): void => {
    records += added
    settings.onProgress(records)
  }
  while (parts === 0 || await cursor.hasNext()) {
    await context.files.write(nameOf(parts + 1), partBytes(cursor, settings, count), { type })
    parts++
    await saveParts(settings, context, records)
  }
  return { parts, records }
}

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

/** Takes over the parts of an earlier run. Returns the position after them. */
export async function adoptParts(
  { files, checkpoint: { value: saved } }: ExportContext,
  { type, nameOf }: Pick<PartsSettings<never>, 'type' | 'nameOf'>,
): Promise<ExportPosition> {
  const isKept = saved !== undefined && areKeepable(files)
    && await files.adopt(unpackParts(saved, type, nameOf))
  return isKept ? { parts: saved.parts.length, records: saved.records } : { parts: 0, records: 0 }
}

/**
 * Saves the position after a part, if a later run can continue there: not without `partRecords`.
 */
async function saveParts<T>(
  { digest, columns, partRecords }: PartsSettings<T>, { files, checkpoint }: ExportContext,
  records: number,
): Promise<void> {
  if (partRecords === Infinity || !areKeepable(files)) return
  const packed = packParts(await files.keep())
  const saved: SavedExport = { settings: digest, records, ...columns && { columns }, ...packed }
  if (Buffer.byteLength(JSON.stringify(saved)) > MAX_CHECKPOINT_BYTES) return
  await checkpoint.save(saved)
}

/** Beginning of the digest of a file, which ends in a colon. */
const DIGEST = 'sha-256=:'

/** Checkpoint of an export. It is short, because a checkpoint of 1000 parts must fit. */
export interface SavedExport {
  /** Digest of the options that decide on the contents of the parts. */
  readonly settings: string
  readonly records: number
  /** Columns of CSV, if they are those of the first record. */
  readonly columns?: readonly string[] | undefined
  readonly runs: readonly (readonly [run: string, parts: number])[]
  /** Size and SHA-256 of each part: `<bytes>:<base64>`. */
  readonly parts: readonly string[]
}

/**
 * Returns the schema of the checkpoint of an export. It rejects one of other settings, whose parts
 * would not fit.
 */
export function savedExport(settings: string): Schema<SavedExport> {
  const validate = (value: unknown) => {
    if (!isSaved(value)) return fault('is not the position of an export')
    if (value.settings !== settings) return fault('was saved with other options of exportTask')
    return { value }
  }
  return { '~standard': { version: 1, vendor: 'longhaul', validate } }
}

/** Returns finished parts as a checkpoint stores them. The slot of a part is its index. */
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
