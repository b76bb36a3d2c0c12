import type { ErrorDetail } from './errors.js'
import { FileSender } from './file-upload/sender.js'
import { checkNames } from './option-names.js'
import type { Settings } from './options.js'
import { start, WORK, type SubmitOptions } from './submit.js'
import type { ResultOptions } from './task.js'
import { writeNdjson, type Records } from './write-ndjson.js'

/** Options of `upload`. */
export interface UploadOptions
  extends Omit<SubmitOptions, 'wait'>, Pick<ResultOptions, 'onProgress'> {
  /**
   * HTTP method.
   * @default POST
   */
  readonly method?: string
  /**
   * Processes the records as a task. `onProgress` is called with its progress. If `false`, the
   * server processes them as they arrive.
   * @default false
   */
  readonly background?: boolean
  /**
   * Sends the records to an endpoint with resumable uploads. After a broken connection the upload
   * continues after the last byte that the server has stored, even if the source can be read only
   * once. The server reads the records when all of them have arrived. Not together with
   * `idempotencyKey`.
   * @default false
   */
  readonly resumable?: boolean
}

const TYPE = 'application/x-ndjson'
const KNOWN = { ...WORK, onProgress: 0, method: 0, resumable: 0 } satisfies Record<keyof UploadOptions, 0>

/** The report of an upload (SPEC 4.9). Only the message is required of a server. */
export interface UploadReport {
  readonly message: string
  readonly summary?: {
    readonly total: number; readonly succeeded: number; readonly failed: number
  }
  /** The first failed lines, in order. `line` is the number of the line, from 1. */
  readonly items?: readonly {
    readonly line: number
    /** An HTTP status. */
    readonly status: number
    readonly error?: {
      readonly code: string
      readonly message?: string
      readonly excerpt?: string
      readonly details?: readonly ErrorDetail[]
    }
  }[]
}

/** Records to upload: a source of objects, a function that returns one, or NDJSON as a `Blob`. */
export type UploadRecords = Records | (() => Records) | Blob

/**
 * Sends records as NDJSON and resolves with the report. A lost request is repeated only if its
 * source can be read again, and it has `background` or a key. With a key it runs once: if the
 * connection breaks after records were written, the call rejects, and the error has their report.
 * An upload with `resumable` continues instead.
 */
export async function upload(
  settings: Settings, path: string, records: UploadRecords, options: UploadOptions = {},
): Promise<UploadReport> {
  checkNames('upload', options, KNOWN)
  const { background = false, resumable = false, onProgress, idempotencyKey, ...rest } = options
  if (resumable && idempotencyKey) {
    throw new TypeError('upload: a resumable upload has no idempotencyKey; omit one of the two')
  }
  const once = !(records instanceof Blob || typeof records === 'function' || Array.isArray(records))
  let sourceFailure: { readonly error: unknown } | undefined
  const open = (): Blob | ReadableStream<Uint8Array> => {
    if (records instanceof Blob) return records
    const source = typeof records === 'function' ? records() : records
    return writeNdjson(watched(source, (error) => { sourceFailure = { error } }))
  }
  const body = (): Blob | ReadableStream<Uint8Array> | Promise<Blob> => {
    const content = open()
    if (content instanceof Blob || settings.streamUploads) return content
    return new Response(content).blob()
  }
  const work = {
    ...rest, background, type: TYPE, once, body,
    ...background && idempotencyKey === undefined ? {} : { idempotencyKey: idempotencyKey ?? false },
    // A request without records has no effect.
    question: { body: '' },
  }
  try {
    const task = resumable
      ? await new FileSender<UploadReport>(
        settings, path, open(), { ...rest, background, type: TYPE },
      ).task()
      : await start<UploadReport>(settings, path, work)
    const { signal } = rest
    return await task.result({ ...signal && { signal }, ...onProgress && { onProgress } })
  } catch (error) {
    // If the source of the records threw, its error is the cause. `fetch` would hide it.
    throw sourceFailure ? (sourceFailure as { error: unknown }).error : error
  }
}

/** Yields the same records. Reports an error of their source before `fetch` replaces it. */
async function* watched(
  records: Records, onError: (error: unknown) => void,
): AsyncGenerator<object, void, undefined> {
  try {
    yield* records
  } catch (error) {
    onError(error)
    throw error
  }
}
