import { isJsonObject } from '../http/body/json.js'
import type { Schema } from '../schema/schema.js'
import type { KeptFile } from '../tasks/definition/run-context.js'

/** Begin of the digest of a file. A colon ends it. */
const DIGEST = 'sha-256=:'

/** Checkpoint of an export. It is short, because a checkpoint of 1000 parts has to fit. */
export interface SavedExport {
  /** Digest of the options that decide what the parts look like. */
  readonly settings: string
  /** Number of records in the parts. */
  readonly records: number
  /** Columns of CSV, if they are those of the first record. */
  readonly columns?: readonly string[] | undefined
  /** The runs that wrote the parts, each with the number of its parts. */
  readonly runs: readonly (readonly [run: string, parts: number])[]
  /** Size and SHA-256 of each part: `<bytes>:<base64>`. */
  readonly parts: readonly string[]
}

/**
 * Returns the schema of the checkpoint of an export. It refuses a checkpoint of other settings,
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

/** Returns the parts that `packParts` has packed. */
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
