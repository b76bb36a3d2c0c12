import type { ErrorDetail } from './errors.js'
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
}

const KNOWN = { ...WORK, onProgress: 0, method: 0 } satisfies Record<keyof UploadOptions, 0>

/** The report of an upload (SPEC 4.9). Only the message is required of a server. */
export interface UploadReport {
  readonly message: string
  readonly summary?: {
    readonly total: number; readonly succeeded: number; readonly failed: number
  }
  /** The first bad lines, in order. `line` is the number of the line, from 1. */
  readonly errors?: readonly {
    readonly line: number
    readonly code: string
    readonly message: string
    readonly excerpt?: string
    readonly details?: readonly ErrorDetail[]
  }[]
}

/**
 * Sends records as NDJSON and resolves with the report. If the upload is lost, it is sent again
 * only with `background` and a repeatable source. Otherwise a part may have been processed.
 */
export async function upload(
  settings: Settings, path: string, records: Records | (() => Records), options: UploadOptions = {},
): Promise<UploadReport> {
  checkNames('upload', options, KNOWN)
  const { background = false, onProgress, idempotencyKey, ...rest } = options
  const open = typeof records === 'function' ? records : () => records
  const once = typeof records !== 'function' && !Array.isArray(records)
  let sourceFailure: { readonly error: unknown } | undefined
  const body = async () => {
    const stream = writeNdjson(watched(open(), (error) => { sourceFailure = { error } }))
    if (settings.streamUploads) return stream
    return new Response(stream).blob()
  }
  const key = background ? idempotencyKey : idempotencyKey ?? false
  try {
    const task = await start<UploadReport>(settings, path, {
      ...rest, body, background, type: 'application/x-ndjson', once,
      ...key !== undefined && { idempotencyKey: key },
    })
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
