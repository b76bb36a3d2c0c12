import type { ErrorDetail } from './errors.js'
import { checkNames } from './option-names.js'
import type { Settings } from './options.js'
import { start, WORK, type SubmitOptions } from './submit.js'
import type { ResultOptions } from './task.js'
import { writeNdjson, type Records } from './write-ndjson.js'

/** How records are uploaded. */
export interface UploadOptions extends Omit<SubmitOptions, 'wait'>, Pick<ResultOptions, 'onProgress'> {
  /** HTTP method. Default POST. */
  readonly method?: string
  /**
   * Has the records read by a task, whose progress `onProgress` hears of. Default false: while they
   * are sent.
   */
  readonly background?: boolean
}

const KNOWN = { ...WORK, onProgress: 0, method: 0 } satisfies Record<keyof UploadOptions, 0>

/**
 * What became of an upload (SPEC 4.9). A server that says no more than SPEC gives the message only.
 */
export interface UploadReport {
  readonly message: string
  readonly summary?: { readonly total: number; readonly succeeded: number; readonly failed: number }
  /** The first bad lines, in order. `line` is from 1. */
  readonly errors?: readonly {
    readonly line: number
    readonly code: string
    readonly message: string
    readonly excerpt?: string
    readonly details?: readonly ErrorDetail[]
  }[]
}

/**
 * Sends records as NDJSON and resolves with the report. A lost upload in the background is sent
 * again by its key, when `records` is an array or a function; others are not, because part of them
 * may have been taken.
 */
export async function upload(
  settings: Settings, path: string, records: Records | (() => Records), options: UploadOptions = {},
): Promise<UploadReport> {
  checkNames('upload', options, KNOWN)
  const { background = false, onProgress, idempotencyKey, ...rest } = options
  const open = typeof records === 'function' ? records : () => records
  let broken: { readonly error: unknown } | undefined
  const body = async () => {
    const stream = writeNdjson(watched(open(), (error) => { broken = { error } }))
    if (settings.streamUploads) return stream
    return new Response(stream).blob()
  }
  const key = background ? idempotencyKey : idempotencyKey ?? false
  try {
    const task = await start<UploadReport>(settings, path, {
      ...rest, body, background, type: 'application/x-ndjson', once: typeof records !== 'function' && !Array.isArray(records),
      ...key !== undefined && { idempotencyKey: key },
    })
    return await task.result({ ...rest.signal && { signal: rest.signal }, ...onProgress && { onProgress } })
  } catch (error) {
    // It was not the network: the source of the records gave up.
    throw broken ? (broken as { error: unknown }).error : error
  }
}

/** The same records; what their source throws is told before `fetch` makes something else of it. */
async function* watched(records: Records, tell: (error: unknown) => void): AsyncGenerator<object, void, undefined> {
  try {
    yield* records
  } catch (error) {
    tell(error)
    throw error
  }
}
