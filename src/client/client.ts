import { bulk, type BulkOptions, type BulkReport } from './bulk.js'
import { Transfer, type Download, type DownloadOptions } from './download.js'
import { checkNames } from './errors.js'
import { readNdjson, type ReadNdjsonOptions } from './ndjson.js'
import { resolvePath, toSettings, type CallOptions, type ClientOptions } from './options.js'
import { retrying } from './retry.js'
import { chunksOf, send } from './send.js'
import { resume, start, WORK, type SubmitOptions } from './submit.js'
import type { ResultOptions } from './status-resource.js'
import type { SavedTask, TaskHandle } from './task.js'
import { listTasks, type TaskList, type TaskListOptions } from './task-list.js'
import { FileSender, type FileUpload, type FileUploadOptions, type UploadContent } from './upload-file.js'
import { upload, type UploadOptions, type UploadRecords, type UploadReport } from './upload.js'

export interface DefinitionLike<Name = string, Input = unknown, Result = unknown> {
  /** For the compiler only; never set. `result` is the JSON form of what `run` returns. */
  readonly '~types'?: { readonly name: Name, readonly input: Input, readonly result: Result }
  /** Does the work, on the server. */
  readonly run: (input: never, context: never) => unknown
}

export interface NamedTypes<Input = unknown, Result = unknown> {
  readonly input: Input
  readonly result: Result
}

/** The types of a task: `typeof` a definition of `defineTask`, or `{ input, result }`. */
export type TaskTypes = DefinitionLike | NamedTypes

/** Input that is submitted: the input of the definition's schema. */
export type InputOf<T extends TaskTypes> =
  T extends DefinitionLike<infer _, infer I> ? I : T extends NamedTypes<infer I> ? I : never

/** Result of a completed task: the JSON form of what `run` returns; `null` for nothing. */
export type ResultOf<T extends TaskTypes> =
  T extends DefinitionLike<infer _, infer _, infer R> ? ([R] extends [void] ? null : R)
    : T extends NamedTypes<unknown, infer R> ? R : never

/**
 * The types of a POST in `paths`, which openapi-typescript generates from an OpenAPI document. The
 * result is the body of the 200, or else the property `result` of the 202.
 */
export interface OpenApiTask<Paths, Path extends keyof Paths> extends NamedTypes {
  readonly input: Paths[Path] extends {
    post: { requestBody?: { content: { 'application/json': infer I } } }
  } ? I : unknown
  readonly result: Paths[Path] extends {
    post: { responses: { 200: { content: { 'application/json': infer R } } } }
  } ? R : Paths[Path] extends {
      post: { responses: { 202: { content: { 'application/json': { result?: infer R } } } } }
    } ? R : unknown
}

/** Options of `run`. */
export interface RunOptions<R = unknown>
  extends SubmitOptions, Pick<ResultOptions<R>, 'onProgress'> {}

/** Options of `client.task`. */
export interface TypedTaskOptions<Input> extends Pick<SubmitOptions, 'statusPath' | 'headers'> {
  /** Returns the body for an input: `(data) => ({ task: 'report', data })`. Default: the input. */
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
export interface RecordsOptions
  extends ReadNdjsonOptions, Pick<CallOptions, 'signal' | 'headers'> {}

/**
 * A client of one server. Paths are relative to its `baseUrl`. A request that is rejected or gets
 * no response rejects with a `ClientError`. An abort rejects with the reason of the signal.
 */
export interface Client {
  /**
   * Submits work by POST. Resolves when the server has accepted it, or has responded at once. A
   * lost request is repeated with the same Idempotency-Key.
   * @example
   * const task = await api.submit('/reports', { year: 2025 })
   * console.log(task.taskId, await task.result())
   */
  submit<R = unknown>(path: string, input: unknown, options?: SubmitOptions): Promise<TaskHandle<R>>
  /**
   * Submits work and waits for its result. The signal stops waiting, not the task.
   * @throws {TaskFailedError} The task failed or was cancelled.
   * @example
   * const { pages } = await api.run<{ pages: number }>('/reports', { year: 2025 })
   */
  run<R = unknown>(path: string, input: unknown, options?: RunOptions<R>): Promise<R>
  /**
   * Returns typed methods for one kind of work.
   * @example
   * const reports = api.task<typeof report>('/reports')
   * const { message } = await reports.run({ year: 2025 })
   */
  task<T extends TaskTypes>(
    path: string, options?: TypedTaskOptions<InputOf<T>>,
  ): TypedTask<InputOf<T>, ResultOf<T>>
  /**
   * Creates a handle from the value, or the JSON, that `toJSON` of another handle returned.
   * @example
   * const saved = JSON.stringify(await api.submit('/reports', { year: 2025 }))
   * console.log(await api.resume(saved).result())
   */
  resume<R = unknown>(saved: SavedTask | string): TaskHandle<R>
  /**
   * Lists the tasks of this client by GET, the newest first.
   * @throws {TypeError} An option is unknown.
   * @example
   * for await (const task of api.tasks('/tasks', { status: 'failed' })) {
   *   console.log(task.taskId, task.createdAt)
   *   await api.resume(task).retry()
   * }
   */
  tasks<R = unknown>(path: string, options?: TaskListOptions): TaskList<R>
  /**
   * Reads NDJSON by GET and yields the records as they arrive.
   * @example
   * for await (const { id } of api.records<{ id: number }>('/users')) console.log(id)
   */
  records<T extends object = Record<string, unknown>>(
    path: string, options?: RecordsOptions,
  ): AsyncGenerator<T, void, undefined>
  /**
   * Sends records as NDJSON and resolves with the server's report. With `background` or an
   * `idempotencyKey`, a lost upload is repeated if the server acknowledges keys and the records can
   * be read again: an array, a `Blob`, or a function, which must return the same records each time.
   * With `resumable` it continues instead.
   * @throws {ClientError} The server rejected the upload or could not be reached.
   * @example
   * const { message, items } = await api.upload('/users', [{ name: 'Ann' }, { name: 'Bob' }])
   */
  upload(path: string, records: UploadRecords, options?: UploadOptions): Promise<UploadReport>
  /**
   * Uploads large content to an endpoint of `resumableUpload`. After a broken connection it
   * continues where the server has stopped. Starts at once.
   * @throws {TypeError} An option is unknown or invalid, or `from` belongs to other content.
   * @example
   * const sending = api.uploadFile('/films', film)
   * console.log(await sending.result())
   */
  uploadFile<R = unknown>(
    path: string, content: UploadContent, options?: FileUploadOptions,
  ): FileUpload<R>
  /**
   * Downloads large content. After a broken connection it resumes while the content is unchanged
   * (Range, If-Range, a strong ETag). Verifies the length. The first read sends the first request.
   * @example
   * const blob = await api.download('/files/film.mp4').blob()
   */
  download(path: string, options?: DownloadOptions): Download
  /**
   * Sends many items in several requests and merges their reports. Each request may be atomic, not
   * all together. An item that a report has named is not sent again. A request whose response was
   * lost is repeated only if the server acknowledges its Idempotency-Key.
   * @throws {BulkFailedError} A request failed as a whole.
   * @example
   * const { summary, items } = await api.bulk('/users/bulk', users, { maxItems: 500 })
   */
  bulk(path: string, items: readonly unknown[], options?: BulkOptions): Promise<BulkReport>
}

/**
 * Creates a client. Sends no request.
 * @throws {TypeError} An option is unknown or invalid.
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
    checkNames('submit', options, [...WORK, 'wait'])
    const json = JSON.stringify(input) as string | undefined
    return start<R>(settings, path, { ...options, body: () => json ?? '' })
  }
  const run = async <R>(path: string, input: unknown, options: RunOptions<R> = {}): Promise<R> => {
    checkNames('run', options, [...WORK, 'wait', 'onProgress'])
    const { onProgress, ...rest } = options
    const { signal } = rest
    const task = await submit<R>(path, input, rest)
    return task.result({ ...signal && { signal }, ...onProgress && { onProgress } })
  }
  return {
    submit, run,
    task<T extends TaskTypes>(path: string, options: TypedTaskOptions<InputOf<T>> = {}) {
      checkNames('task', options, ['statusPath', 'headers', 'body'])
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
      checkNames('records', options, ['signal', 'headers', 'maxLineBytes', 'onFault'])
      const { signal, headers, ...rest } = options
      const call = {
        url: resolvePath(settings, path), signal,
        headers: { accept: 'application/x-ndjson', ...headers },
      }
      const received = await retrying(settings, 'read', signal, () => send(settings, call))
      yield* readNdjson<T>(chunksOf(received), rest)
    },
    upload: (path, records, options) => upload(settings, path, records, options),
    uploadFile: (path, content, options = {}) => new FileSender(settings, path, content, options),
    download: (path, options = {}) => new Transfer(settings, resolvePath(settings, path), options),
    bulk: (path, items, options) => bulk(settings, path, items, options),
  }
}
