import { httpError, type HttpError } from '../http/errors.js'
import type { TaskEndpoints } from '../tasks/http/endpoints.js'
import { START, type UploadPosition } from './upload-position.js'
import type { Segment } from './upload-segments.js'

/** Stores the progress of the upload of one Idempotency-Key. */
export type Progress = ReturnType<TaskEndpoints['progressOf']>

/** State of a direct upload with an Idempotency-Key, as JSON in the store. */
export interface KeptUpload {
  /** Position after the last batch that was written. */
  readonly position: UploadPosition
  /** Digests of the bytes before that position, one for each request that brought some. */
  readonly segments: readonly Segment[]
  /** True if the upload has ended, so that its answer is about all of it. */
  readonly isComplete: boolean
  /** Id under which the application stores its cursor; missing if it stores none. */
  readonly uploadId?: string
}

/** Maximum number of requests that may bring parts of one upload. */
export const MAX_SEGMENTS = 1000

const NOTHING: KeptUpload = { position: START, segments: [], isComplete: false }

/** Returns the state of the upload of a key. If none is stored, it is that before the first byte. */
export async function readKept(progress: Progress): Promise<KeptUpload> {
  const text = await progress.read()
  return text === undefined ? NOTHING : JSON.parse(text) as KeptUpload
}

/** Returns the committed part of an upload, as clients see it. */
export function committedOf({ position }: KeptUpload): { lines: number; bytes: number } {
  return { lines: position.lines, bytes: position.byte }
}

/** Returns the error that tells a client where an upload continues. */
export function incomplete(kept: KeptUpload): HttpError {
  const committed = committedOf(kept)
  return httpError('upload_incomplete', {
    message: `The upload continues at byte ${committed.bytes}, after ${committed.lines} lines.`,
    members: { committed },
    headers: { 'upload-offset': String(committed.bytes) },
  })
}
