import { ClientError, type ErrorDetail } from './errors.js'
import { restOf, sendDirect, type Rest } from './file-upload/direct.js'
import { checkNames } from './option-names.js'
import { resolvePath, type Settings } from './options.js'
import { start, toHandle, WORK, type SubmitOptions } from './submit.js'
import type { ResultOptions, TaskHandle } from './task.js'
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

const TYPE = 'application/x-ndjson'
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

/** Records to upload: a source of objects, a function that returns one, or NDJSON as a `Blob`. */
export type UploadRecords = Records | (() => Records) | Blob

/**
 * Sends records as NDJSON and resolves with the report. A lost upload continues only if its source
 * can be read again, and it has `background` or a key. Otherwise a part may have been processed.
 */
export async function upload(
  settings: Settings, path: string, records: UploadRecords, options: UploadOptions = {},
): Promise<UploadReport> {
  checkNames('upload', options, KNOWN)
  const { background = false, onProgress, idempotencyKey, ...rest } = options
  const isBlob = records instanceof Blob
  const once = !isBlob && typeof records !== 'function' && !Array.isArray(records)
  let sourceFailure: { readonly error: unknown } | undefined
  const open = async (start: number): Promise<Rest> => {
    if (isBlob) return sliceOf(records, start)
    const source = typeof records === 'function' ? records() : records
    const stream = writeNdjson(watched(source, (error) => { sourceFailure = { error } }))
    if (settings.streamUploads) return restOf(stream, start)
    return sliceOf(await new Response(stream).blob(), start)
  }
  const work = {
    ...rest, background, type: TYPE, once, body: async () => (await open(0)).body,
    ...background && idempotencyKey === undefined ? {} : { idempotencyKey: idempotencyKey ?? false },
    // No records: a server with keys tells that the upload is incomplete, another reads nothing.
    question: { body: '', headers: { 'upload-offset': '0' } },
  }
  try {
    const resumes = !background && !once && typeof idempotencyKey === 'string'
    const task = resumes
      ? await sendKeyed(settings, path, { ...rest, idempotencyKey }, open)
      : await start<UploadReport>(settings, path, work)
    const { signal } = rest
    return await task.result({ ...signal && { signal }, ...onProgress && { onProgress } })
  } catch (error) {
    // If the source of the records threw, its error is the cause. `fetch` would hide it.
    throw sourceFailure ? (sourceFailure as { error: unknown }).error : error
  }
}

/** Sends a direct upload with a key, in several requests if the connection breaks. */
async function sendKeyed(
  settings: Settings, path: string, options: UploadOptions & { idempotencyKey: string },
  open: (start: number) => Promise<Rest>,
): Promise<TaskHandle<UploadReport>> {
  const { method = 'POST', signal, headers, idempotencyKey, statusPath } = options
  const answer = await sendDirect(settings, {
    method, url: resolvePath(settings, path), signal, headers: {
      'accept': 'application/json', 'content-type': TYPE, 'idempotency-key': idempotencyKey,
      ...headers,
    },
  }, open)
  return toHandle(settings, answer, statusPath)
}

/** Returns the content from a byte on. */
function sliceOf(content: Blob, start: number): Rest {
  const { size } = content
  if (start > size) throw new ClientError('content_lost', 'The server has more than the content.')
  return { body: content.slice(start), isEmpty: start > 0 && start === size }
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
