import { bulk, type BulkOptions } from './bulk.js'
import type { BulkReport } from './bulk-report.js'
import { Transfer, type Download, type DownloadOptions } from './download.js'
import { chunksOf } from './chunks.js'
import { checkNames } from './option-names.js'
import { resolvePath, toSettings, type ClientOptions } from './options.js'
import { readNdjson, type ReadNdjsonOptions } from './read-ndjson.js'
import { resume, start, SUBMIT, type SubmitOptions } from './submit.js'
import type { ResultOptions, SavedTask, TaskHandle } from './task.js'
import { retrying, send } from './transport.js'
import type { InputOf, ResultOf, TaskTypes } from './typed.js'
import { upload, type UploadOptions, type UploadReport } from './upload.js'
import type { Records } from './write-ndjson.js'

/** How a task's result is asked for in one go. */
export interface RunOptions<R = unknown> extends SubmitOptions, Pick<ResultOptions<R>, 'onProgress'> {}

/** Where one kind of work is submitted. */
export interface TaskPlaceOptions<Input> extends Pick<SubmitOptions, 'statusPath' | 'headers'> {
  /**
   * Makes the body of the input, where an endpoint takes more than one kind of work: `(data) => ({
   * task: 'report', data })`.
   */
  readonly body?: (input: Input) => unknown
}

/** One kind of work, with the types of its input and its result. */
export interface TypedTask<Input, Result> {
  /** As `client.submit`. */
  submit(input: Input, options?: SubmitOptions): Promise<TaskHandle<Result>>
  /** As `client.run`. */
  run(input: Input, options?: RunOptions<Result>): Promise<Result>
  /** As `client.resume`. */
  resume(saved: SavedTask | string): TaskHandle<Result>
}

/** How records are downloaded. */
export interface RecordsOptions extends ReadNdjsonOptions {
  /** Stops reading. */
  readonly signal?: AbortSignal
  /** Further header fields. */
  readonly headers?: Readonly<Record<string, string>>
}

/**
 * A client of one server. Paths begin at its `baseUrl`. What is refused or never answered rejects
 * with a `ClientError`; an abort rejects with the reason of the signal.
 */
export interface Client {
  /**
   * Submits work by POST, and resolves when the server has taken it in, or has answered at once. A
   * lost or refused request is sent again, under the same Idempotency-Key.
   */
  submit<R = unknown>(path: string, input: unknown, options?: SubmitOptions): Promise<TaskHandle<R>>
  /** Submits work and waits for its result. The signal ends the waiting, not the task. */
  run<R = unknown>(path: string, input: unknown, options?: RunOptions<R>): Promise<R>
  /** Gives a kind of work the types of its definition or of an OpenAPI document. */
  task<T extends TaskTypes>(path: string, options?: TaskPlaceOptions<InputOf<T>>): TypedTask<InputOf<T>, ResultOf<T>>
  /**
   * Takes up a task from what its handle's `toJSON` gave, or from the text that `JSON.stringify`
   * made of it.
   */
  resume<R = unknown>(saved: SavedTask | string): TaskHandle<R>
  /** The records that a GET gives as NDJSON, as they come (SPEC 4.9). */
  records<T extends object = Record<string, unknown>>(path: string, options?: RecordsOptions): AsyncGenerator<T, void, undefined>
  /**
   * Sends records as NDJSON, and resolves with the server's report (SPEC 4.9). Give an array, or a
   * function that gives the records anew, where they may be sent again.
   */
  upload(path: string, records: Records | (() => Records), options?: UploadOptions): Promise<UploadReport>
  /**
   * Downloads large content. It goes on where the connection broke, as long as the content is the
   * same (Range, If-Range, a strong ETag), and its length is verified. Nothing is asked for until
   * the bytes are.
   */
  download(path: string, options?: DownloadOptions): Download
  /**
   * Sends many items in requests that the server can take, and merges their reports: `index` is
   * that of `items`. Each request stands for itself, so what is atomic is one request. Rejects with
   * a `BulkFailedError` when a request fails as a whole.
   */
  bulk(path: string, items: readonly unknown[], options?: BulkOptions): Promise<BulkReport>
}

const RUN = { ...SUBMIT, onProgress: 0 } satisfies Record<keyof RunOptions, 0>
const PLACE = { statusPath: 0, headers: 0, body: 0 } satisfies Record<keyof TaskPlaceOptions<unknown>, 0>
const RECORDS = { signal: 0, headers: 0, maxLineBytes: 0, onFault: 0 } satisfies Record<keyof RecordsOptions, 0>

/** Makes a client. Sends nothing. Throws a `TypeError` when an option makes no sense. */
export function createClient(options: ClientOptions = {}): Client {
  const settings = toSettings(options)
  const submit = async <R>(path: string, input: unknown, how: SubmitOptions = {}): Promise<TaskHandle<R>> => {
    checkNames('submit', how, SUBMIT)
    const text = JSON.stringify(input) as string | undefined
    return start<R>(settings, path, { ...how, body: () => text ?? '' })
  }
  const run = async <R>(path: string, input: unknown, options: RunOptions<R> = {}): Promise<R> => {
    checkNames('run', options, RUN)
    const { onProgress, ...how } = options
    const task = await submit<R>(path, input, how)
    return task.result({ ...how.signal && { signal: how.signal }, ...onProgress && { onProgress } })
  }
  return {
    submit, run,
    task<T extends TaskTypes>(path: string, options: TaskPlaceOptions<InputOf<T>> = {}) {
      checkNames('task', options, PLACE)
      const { body = (input) => input, ...place } = options
      return {
        submit: (input: InputOf<T>, how?: SubmitOptions) => submit<ResultOf<T>>(path, body(input), { ...place, ...how }),
        run: (input: InputOf<T>, how?: RunOptions<ResultOf<T>>) => run<ResultOf<T>>(path, body(input), { ...place, ...how }),
        resume: (saved: SavedTask | string) => resume<ResultOf<T>>(settings, saved),
      }
    },
    resume: (saved) => resume(settings, saved),
    async* records<T extends object>(path: string, options: RecordsOptions = {}) {
      checkNames('records', options, RECORDS)
      const { signal, headers, ...how } = options
      const call = { url: resolvePath(settings, path), signal, headers: { accept: 'application/x-ndjson', ...headers } }
      const body = await retrying(settings, 'read', signal, () => send(settings, call, (response, scope) => chunksOf(response.body, scope)))
      yield* readNdjson<T>(body, how)
    },
    upload: (path, records, how) => upload(settings, path, records, how),
    download: (path, how = {}) => new Transfer(settings, path, how),
    bulk: (path, items, how) => bulk(settings, path, items, how),
  }
}
