import type { UploadResult } from '../wire/report.js'
import { checkNames } from './errors.js'
import { writeNdjson, type Records } from './ndjson.js'
import type { Settings } from './options.js'
import type { Body } from './send.js'
import { start, WORK, type SubmitOptions } from './submit.js'
import type { ResultOptions } from './status-resource.js'
import type { TaskHandle } from './task.js'
import { FileSender } from './upload-file.js'

/** Options of `upload`. */
export interface UploadOptions
  extends Omit<SubmitOptions, 'wait'>, Pick<ResultOptions, 'onProgress'> {
  /** HTTP method of the first request. Updates use PATCH. Default: POST. */
  readonly method?: string
  /** Asks the server to do the work as a task. Default: false. */
  readonly background?: boolean
  /**
   * Sends the records to an endpoint with resumable uploads. Not together with `idempotencyKey`.
   * Default: false.
   *
   * After a broken connection the upload continues, even if the source can be read only once.
   *
   * The server reads the records when all have arrived.
   */
  readonly resumable?: boolean
}

/** The report of an upload. Only the message is required of a server. */
export interface UploadReport extends Partial<UploadResult> {
  readonly message: string
}

/** Records to upload: a source of objects, a function that returns one, or NDJSON as a `Blob`. */
export type UploadRecords = Records | (() => Records) | Blob

const TYPE = 'application/x-ndjson'

export async function upload(
  settings: Settings, path: string, records: UploadRecords, options: UploadOptions = {},
): Promise<UploadReport> {
  checkNames('upload', options, [...WORK, 'onProgress', 'method', 'resumable'])
  const { background = false, resumable = false, onProgress, ...rest } = options
  const { signal, idempotencyKey = background ? undefined : false } = options
  if (resumable && options.idempotencyKey) {
    throw new TypeError('upload: a resumable upload has no idempotencyKey; omit one of the two')
  }
  // If the source of the records throws, `fetch` hides its error.
  let failure: { readonly error: unknown } | undefined
  const open = (): Blob | ReadableStream<Uint8Array> => {
    if (records instanceof Blob) return records
    const source = typeof records === 'function' ? records() : records
    return writeNdjson(watched(source, (error) => { failure = { error } }))
  }
  const body = (): Body | Promise<Blob> => {
    const content = open()
    return content instanceof Blob || settings.streamUploads ? content : new Response(content).blob()
  }
  const send = async (): Promise<TaskHandle<UploadReport>> => {
    if (resumable) {
      const { idempotencyKey: _, ...common } = rest
      return new FileSender<UploadReport>(settings, path, open(), { ...common, background, type: TYPE })
        .task()
    }
    return start(settings, path, {
      ...rest, background, type: TYPE, body, ...idempotencyKey !== undefined && { idempotencyKey },
      once: !(records instanceof Blob || typeof records === 'function' || Array.isArray(records)),
      // A request without records has no effect.
      question: '',
    })
  }
  try {
    const task = await send()
    return await task.result({ ...signal && { signal }, ...onProgress && { onProgress } })
  } catch (error) {
    throw failure ? (failure as { error: unknown }).error : error
  }
}

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
