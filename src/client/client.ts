import { bulk, type BulkOptions } from './bulk.js'
import type { BulkReport } from './bulk-report.js'
import { chunksOf } from './chunks.js'
import type { Download, DownloadOptions } from './download.js'
import { FileSender } from './file-upload/sender.js'
import type { FileUpload, FileUploadOptions, UploadContent } from './file-upload/types.js'
import { checkNames } from './option-names.js'
import { resolvePath, toSettings, type ClientOptions } from './options.js'
import { readNdjson, type ReadNdjsonOptions } from './read-ndjson.js'
import { resume, start, SUBMIT, type SubmitOptions } from './submit.js'
import type { ResultOptions, SavedTask, TaskHandle } from './task.js'
import { listTasks } from './task-list/list.js'
import type { TaskList, TaskListOptions } from './task-list/types.js'
import { Transfer } from './transfer.js'
import { retrying, send } from './transport.js'
import type { InputOf, ResultOf, TaskTypes } from './typed.js'
import {
  upload, type UploadOptions, type UploadRecords, type UploadReport,
} from './upload.js'

/** Options of `run`. */
export interface RunOptions<R = unknown>
  extends SubmitOptions, Pick<ResultOptions<R>, 'onProgress'> {}

/** Options of `client.task`. */
export interface TypedTaskOptions<Input> extends Pick<SubmitOptions, 'statusPath' | 'headers'> {
  /**
   * Returns the body for an input. For an endpoint of several kinds of work:
   * `(data) => ({ task: 'report', data })`.
   * @default the input itself
   */
  readonly body?: (input: Input) => unknown
}

/** One kind of work, with the types of its input and its result. */
export interface TypedTask<Input, Result> {
  /** Submits work; see `client.submit`. */
  submit(input: Input, options?: SubmitOptions): Promise<TaskHandle<Result>>
  /** Submits work and waits for its result; see `client.run`. */
  run(input: Input, options?: RunOptions<Result>): Promise<Result>
  /** Creates a handle for a task of this kind; see `client.resume`. */
  resume(saved: SavedTask | string): TaskHandle<Result>
}

/** Options of `records`. */
export interface RecordsOptions extends ReadNdjsonOptions {
  /** Stops reading. */
  readonly signal?: AbortSignal
  /** Additional header fields. */
  readonly headers?: Readonly<Record<string, string>>
}

/**
 * A client of one server. Paths are relative to its `baseUrl`. A request that is refused or gets no
 * answer rejects with a `ClientError`. An abort rejects with the reason of the signal.
 */
export interface Client {
  /**
   * Submits work by POST. Resolves when the server has accepted it, or has answered at once. A lost
   * request is sent again with the same Idempotency-Key.
   *
   * @example
   * const task = await api.submit('/reports', { year: 2025 })
   * console.log(task.taskId, await task.result())
   */
  submit<R = unknown>(path: string, input: unknown, options?: SubmitOptions): Promise<TaskHandle<R>>
  /**
   * Submits work and waits for its result. The signal stops waiting, not the task.
   *
   * @throws {TaskFailedError} The task failed or was cancelled.
   *
   * @example
   * const { pages } = await api.run<{ pages: number }>('/reports', { year: 2025 })
   */
  run<R = unknown>(path: string, input: unknown, options?: RunOptions<R>): Promise<R>
  /**
   * Returns typed methods for one kind of work. The types come from its definition or from an
   * OpenAPI document.
   *
   * @example
   * const reports = api.task<typeof report>('/reports')
   * const { message } = await reports.run({ year: 2025 })
   */
  task<T extends TaskTypes>(
    path: string, options?: TypedTaskOptions<InputOf<T>>,
  ): TypedTask<InputOf<T>, ResultOf<T>>
  /**
   * Creates a handle for a task that was submitted before. Takes what `toJSON` of its handle
   * returned, as a value or as JSON text.
   *
   * @example
   * const saved = JSON.stringify(await api.submit('/reports', { year: 2025 }))
   * console.log(await api.resume(saved).result())
   */
  resume<R = unknown>(saved: SavedTask | string): TaskHandle<R>
  /**
   * Lists the tasks of this client by GET, the newest first. Iterating reads page after page.
   *
   * @throws {TypeError} An option is unknown.
   *
   * @example
   * for await (const task of api.tasks('/tasks', { status: 'failed' })) {
   *   console.log(task.taskId, task.createdAt)
   *   await api.resume(task).retry()
   * }
   */
  tasks<R = unknown>(path: string, options?: TaskListOptions): TaskList<R>
  /**
   * Reads NDJSON by GET and yields the records as they arrive (SPEC 4.9).
   *
   * @example
   * for await (const { id } of api.records<{ id: number }>('/users')) console.log(id)
   */
  records<T extends object = Record<string, unknown>>(
    path: string, options?: RecordsOptions,
  ): AsyncGenerator<T, void, undefined>
  /**
   * Sends records as NDJSON and resolves with the server's report (SPEC 4.9). An array, a `Blob`, or
   * a function that returns the records, can be read again after a failure. With `background` it is
   * then sent again, if the server acknowledges keys. With an `idempotencyKey` and without `background`, the client asks how much is
   * committed and sends the rest, if the server is an `ndjsonUpload` with `background`. A function
   * must return the same records each time.
   *
   * @throws {ClientError} The server refused the upload or could not be reached.
   *
   * @example
   * const { message, errors } = await api.upload('/users', [{ name: 'Ann' }, { name: 'Bob' }])
   */
  upload(
    path: string, records: UploadRecords, options?: UploadOptions,
  ): Promise<UploadReport>
  /**
   * Uploads large content to an endpoint of `resumableUpload`. After a broken connection it
   * continues where the server has stopped. Starts at once.
   *
   * @throws {TypeError} An option is unknown or invalid, or `from` belongs to other content.
   *
   * @example
   * const sending = api.uploadFile('/films', film)
   * console.log(await sending.result())
   */
  uploadFile<R = unknown>(
    path: string, content: UploadContent, options?: FileUploadOptions,
  ): FileUpload<R>
  /**
   * Downloads large content. After a broken connection it resumes while the content is unchanged
   * (Range, If-Range, a strong ETag). Its length is verified. The first read sends the first
   * request.
   *
   * @example
   * const blob = await api.download('/files/film.mp4').blob()
   */
  download(path: string, options?: DownloadOptions): Download
  /**
   * Sends many items in several requests and merges their reports. `index` refers to `items`. If
   * the server applies items atomically, that is true for each request, not for all items. An item
   * that a report has answered is not sent again. A request whose response was lost is repeated only
   * if the server acknowledges its Idempotency-Key.
   *
   * @throws {BulkFailedError} A request failed as a whole.
   *
   * @example
   * const { summary, items } = await api.bulk('/users/bulk', users, { maxItems: 500 })
   */
  bulk(path: string, items: readonly unknown[], options?: BulkOptions): Promise<BulkReport>
}

const RUN = { ...SUBMIT, onProgress: 0 } satisfies Record<keyof RunOptions, 0>
const TASK = {
  statusPath: 0, headers: 0, body: 0,
} satisfies Record<keyof TypedTaskOptions<unknown>, 0>
const RECORDS = {
  signal: 0, headers: 0, maxLineBytes: 0, onFault: 0,
} satisfies Record<keyof RecordsOptions, 0>

/**
 * Creates a client. Sends no request.
 *
 * @throws {TypeError} An option is unknown or invalid.
 *
 * @example
 * const client = createClient({
 *   baseUrl: 'https://api.example', headers: { authorization: 'Bearer secret' },
 * })
 * console.log(await client.run('/reports', { year: 2025 }))
 */
export function createClient(options: ClientOptions = {}): Client {
  const settings = toSettings(options)
  const submit = async <R>(
    path: string, input: unknown, options: SubmitOptions = {},
  ): Promise<TaskHandle<R>> => {
    checkNames('submit', options, SUBMIT)
    const text = JSON.stringify(input) as string | undefined
    return start<R>(settings, path, { ...options, body: () => text ?? '' })
  }
  const run = async <R>(path: string, input: unknown, options: RunOptions<R> = {}): Promise<R> => {
    checkNames('run', options, RUN)
    const { onProgress, ...rest } = options
    const { signal } = rest
    const task = await submit<R>(path, input, rest)
    return task.result({ ...signal && { signal }, ...onProgress && { onProgress } })
  }
  return {
    submit, run,
    task<T extends TaskTypes>(path: string, options: TypedTaskOptions<InputOf<T>> = {}) {
      checkNames('task', options, TASK)
      const { body = (input) => input, ...common } = options
      type Result = ResultOf<T>
      return {
        submit: (input: InputOf<T>, options?: SubmitOptions) => (
          submit<Result>(path, body(input), { ...common, ...options })
        ),
        run: (input: InputOf<T>, options?: RunOptions<Result>) => (
          run<Result>(path, body(input), { ...common, ...options })
        ),
        resume: (saved: SavedTask | string) => resume<Result>(settings, saved),
      }
    },
    resume: (saved) => resume(settings, saved),
    tasks: (path, options = {}) => listTasks(settings, path, options),
    async* records<T extends object>(path: string, options: RecordsOptions = {}) {
      checkNames('records', options, RECORDS)
      const { signal, headers, ...rest } = options
      const call = {
        url: resolvePath(settings, path), signal,
        headers: { accept: 'application/x-ndjson', ...headers },
      }
      const body = await retrying(settings, 'read', signal, () => (
        send(settings, call, (response, scope) => chunksOf(response.body, scope))
      ))
      yield* readNdjson<T>(body, rest)
    },
    upload: (path, records, options) => upload(settings, path, records, options),
    uploadFile: (path, content, options = {}) => new FileSender(settings, path, content, options),
    download: (path, options = {}) => new Transfer(settings, resolvePath(settings, path), options),
    bulk: (path, items, options) => bulk(settings, path, items, options),
  }
}
