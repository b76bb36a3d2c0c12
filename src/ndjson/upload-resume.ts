import { decodeBytes, type DecodeOptions } from '../http/body/decode.js'
import { httpError } from '../http/errors.js'
import type { Blobs } from '../stores/blobs.js'
import type { TaskContext } from '../tasks/definition/define.js'
import type { SpooledBody } from '../tasks/definition/spool.js'
import { fromCursor, START, type UploadPosition } from './upload-position.js'
import type { UploadOptions } from './upload-options.js'
import type { UploadError } from './upload-report.js'

/** Maximum size of the errors in a checkpoint, as JSON in UTF-16 units. More are stored as a blob. */
const MAX_ERRORS_LENGTH = 16_384

/** The context of a run that reads an upload. */
export type UploadRunContext = TaskContext<unknown, UploadPosition>

/** Stores the errors of an upload that are too large for its checkpoint, and the checkpoint. */
export class UploadCheckpoint {
  private readonly key: string
  /** All errors so far that were stored, ordered by line. */
  private stored: UploadError[] = []

  /** @param ttlMs - maximum time that the errors are kept, in milliseconds */
  constructor(
    private readonly blobs: Blobs, { blob }: SpooledBody, private readonly ttlMs: number,
    private readonly checkpoint: UploadRunContext['checkpoint'] | undefined,
  ) {
    this.key = errorsKey(blob)
  }

  /** Returns the errors of a position. */
  async errorsOf({ stored, errors }: UploadPosition): Promise<readonly UploadError[]> {
    if (stored === 0) return errors
    const bytes = await this.blobs.open(this.key)
    if (bytes === undefined) throw httpError('gone', { message: 'What was sent is no longer here.' })
    const pieces: Uint8Array[] = []
    for await (const piece of bytes) pieces.push(Uint8Array.prototype.slice.call(piece))
    const all = JSON.parse(Buffer.concat(pieces).toString()) as UploadError[]
    // A run that died after it had stored more errors than its last position names.
    this.stored = all.slice(0, stored)
    return [...this.stored, ...errors]
  }

  /** Saves a position. Returns the number of errors that are stored as a blob. */
  async save(position: UploadPosition): Promise<number> {
    const kept = await this.storeErrors(position)
    await this.checkpoint?.save(kept)
    return kept.stored
  }

  /** Stores the errors of a position if they are large. Errors are only ever added. */
  private async storeErrors(position: UploadPosition): Promise<UploadPosition> {
    const { errors } = position
    if (errors.length === 0 || JSON.stringify(errors).length <= MAX_ERRORS_LENGTH) return position
    const stored = [...this.stored, ...errors]
    await this.blobs.put(this.key, oneOf(Buffer.from(JSON.stringify(stored))), { ttlMs: this.ttlMs })
    this.stored = stored
    return { ...position, stored: stored.length, errors: [] }
  }
}

/** Returns the key of the errors that are stored beside an upload. */
export function errorsKey(blob: string): string {
  return `${blob}.errors`
}

/** Returns where a run begins: at the cursor of the application, or at its checkpoint. */
export async function startOf<T>(
  { resume }: UploadOptions<T>, context: UploadRunContext,
): Promise<UploadPosition> {
  if (context.attempt === 1) return START
  const { taskId, owner, context: stored, signal } = context
  // A run without a task id is the only one.
  if (resume === undefined || taskId === undefined) return context.checkpoint.value ?? START
  const cursor = await resume({ taskId, uploadId: taskId, owner, context: stored, signal })
  return cursor === undefined || cursor === null ? START : fromCursor(cursor)
}

/**
 * Returns the decoded bytes of a spooled upload from a position on. Reads a coded body from its
 * beginning, because a coding cannot be entered midway.
 *
 * @param open - opens the bytes as sent, from an offset on
 */
export async function bytesFrom(
  { coding }: SpooledBody, { byte }: UploadPosition, limits: DecodeOptions,
  open: (start: number) => Promise<AsyncIterable<Uint8Array>>,
): Promise<AsyncIterable<Uint8Array>> {
  if (coding === 'identity') return decodeBytes(await open(byte), coding, limits)
  const decoded = decodeBytes(await open(0), coding, limits)
  return byte === 0 ? decoded : skipped(decoded, byte)
}

async function* skipped(
  source: AsyncIterable<Uint8Array>, count: number,
): AsyncGenerator<Uint8Array, void, undefined> {
  let left = count
  for await (const piece of source) {
    if (left < piece.byteLength) yield left === 0 ? piece : piece.subarray(left)
    left = Math.max(left - piece.byteLength, 0)
  }
}

async function* oneOf(bytes: Uint8Array): AsyncGenerator<Uint8Array, void, undefined> {
  yield bytes
}
