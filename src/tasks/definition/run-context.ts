import type { Schema } from '../../schema/schema.js'
import type { PartList } from '../../stores/parts.js'
import type { TaskFile } from '../../wire/task.js'

/**
 * The second argument of `run`. Declare the type of `context`, as in `run: (input, { context }:
 * TaskContext<{ locale: string }>) => …`: then no task is submitted without it.
 */
export interface TaskContext<C = unknown, P = unknown, A = unknown> {
  /** `undefined` while the work runs for a synchronous request. */
  readonly taskId: string | undefined
  /** Number of this run, from 1. More than 1 if an earlier run failed or its process died. */
  readonly attempt: number
  readonly lastAttempt: boolean
  /**
   * Id of the work for other systems, such as the id of a job: at most 180 of `A-Z a-z 0-9 . _ -`.
   * A run after a crash or a shutdown has the id of the run before it, so it finds the work that
   * this run has started. A run after a failed run, and a retry, have a new id. `undefined` if
   * `taskId` is `undefined`.
   */
  readonly workId: string | undefined
  /**
   * Aborts on cancel, time-out and shutdown; for a synchronous request, also when the client
   * disconnects. With a `checkpoint` on Redis or PostgreSQL, it aborts when the shutdown begins, with
   * a `WorkerClosingError`: if the run saves and ends within the drain time, another process
   * continues the task at once, and no attempt is used.
   */
  readonly signal: AbortSignal
  readonly owner: string | undefined
  /** Tenant of the owner, if there is one. */
  readonly tenant: string | undefined
  /** Name of the external resource of the task, as `external.of` of its definition returned it: of several the first. */
  readonly external: string | undefined
  /** The context of the endpoint or of the submitting code, as JSON, if there is one. */
  readonly context: C
  /**
   * Reports progress: `progress(3, 12, 'March is done', 'months')`. Cheap to call often: writes are
   * at least `progressIntervalMs` apart, and a failed write never fails the task. `unit` has at
   * most 50 characters.
   */
  readonly progress: (done: number, total?: number, message?: string, unit?: string) => void
  /**
   * Logs a line for operators: `log('page 7 was empty')`. The task keeps the last 100 lines of all its runs,
   * at most 8 KiB together and 1 KiB each. Clients never see them. Lines cause no writes: they are stored
   * with the next progress and at the end of the run. A synchronous request keeps none.
   */
  readonly log: (line: string) => void
  /** Writes files of the result. The definition needs `files: true`. */
  readonly files: TaskFiles
  /** Needs the option `checkpoint` of `defineTask`. For a synchronous request, `save` keeps nothing. */
  readonly checkpoint: Checkpoint<P>
  /** Asks a person or an agent, and returns the answer. The definition needs `asks`. */
  readonly ask: Ask<A>
}

/** The property `ask` of the context of `run`. `A` has the schemas of `asks` by their names. */
export interface Ask<A = unknown> {
  /**
   * Returns the answer to the question with this key. If there is none yet, the run ends here: it
   * frees its place, and the task is `input_required`, for weeks if necessary. Once all questions
   * of the run are answered, `run` starts again from its checkpoint, in any process, and `ask`
   * returns the answer.
   *
   * So code before `ask` runs again: save what must not be repeated in a `checkpoint`. A run that
   * ends here is no failure and uses no attempt. Its `signal` aborts, and nothing after `ask` is
   * executed, not even `catch` or `finally`: hold no lock and no connection meanwhile. Questions
   * that are asked at the same time (`Promise.all`) are shown together.
   *
   * A key is used once in a task: 1 to 64 of `A-Z a-z 0-9 . _ -`, a letter first. It is also the name of
   * the schema, unless the option `schema` names another one. A task asks 32 questions at most.
   *
   * @example
   * defineTask({
   *   name: 'mail',
   *   asks: { approve: jsonSchema<{ send: boolean }>({ type: 'object', required: ['send'] }) },
   *   run: async (mail: { to: string }, { ask }) => {
   *     const { send } = await ask('approve', { message: `Send the mail to ${mail.to}?` })
   *     return { sent: send }
   *   },
   * })
   *
   * @throws {HttpError} 409 `input_timed_out`: nobody has answered in time. It fails the task, unless `run`
   * catches it. 400 `invalid_input`: the schema of this version rejects an answer that an earlier one has
   * accepted. 409 `attempt_replaced`: the run has ended.
   * @throws {TypeError} There is no such schema, an option is not valid, the question is too large, or the
   * task has asked too many.
   */
  <N extends keyof A & string>(key: string, question: Question & {
    /** Name of the schema of the answer, among `asks`. @default the key */
    readonly schema: N,
  }): Promise<AnswerOf<A[N]>>
  <N extends keyof A & string>(key: N, question: Question): Promise<AnswerOf<A[N]>>
}

/** Options of one question. */
export interface Question {
  /** The question, for people: 1 to 2000 characters. */
  readonly message: string
  /** Maximum time to wait for the answer, in milliseconds, from 1 to 100 years. @default 604_800_000 */
  readonly timeoutMs?: number
}

/** A question with any schema. */
export interface AnyQuestion extends Question {
  /** Name of the schema of the answer, among `asks`. @default the key */
  readonly schema?: string
}

/** The value that a schema returns. */
export type AnswerOf<S> = S extends Schema<infer T> ? T : never

/** One JSON value that outlives a run of a task. The next run reads it and continues from there. */
export interface Checkpoint<P = unknown> {
  /** The value that an earlier run saved last. It stays the same during a run. */
  readonly value: P | undefined
  /**
   * Saves a value in place of the earlier one. Resolves when the engine has it. If the run has been
   * stopped, stores the value and then rejects with the reason of `signal`. While the engine is
   * unavailable, retries for up to 30 seconds.
   *
   * @throws {TypeError} The value is not JSON of at most 64 KiB, or there is no option `checkpoint`.
   * @throws {HttpError} 409 `attempt_replaced`: another run has begun, or the task has ended. Nothing
   * was saved, and the signal of this run aborts.
   * @throws {StoreUnavailableError} The engine did not respond in time. The value may be saved.
   */
  save(value: P): Promise<void>
}

/** A checkpoint that saves the list of the parts of a task with the value, for `ExternalResource`. */
export interface PartsCheckpoint<P> extends Checkpoint<P> {
  /** @param parts - Default: the list stays */
  save(value: P, parts?: PartList): Promise<void>
}

/** Content of a result file. Strings are written as UTF-8. */
export type FileContent =
  | string | Uint8Array
  | Iterable<Uint8Array | string> | AsyncIterable<Uint8Array | string>

/** Options of `files.write`. */
export interface WriteFileOptions {
  /** Media type, for `Content-Type`, of at most 255 characters. @default 'application/octet-stream' */
  readonly type?: string
}

/** The property `files` of the context of `run`. */
export interface TaskFiles {
  /**
   * Writes one file of the result to the blobs of `createTasks`, with backpressure. Files may be
   * written concurrently. Clients see the files once the task is completed, in the order of the
   * calls. If the run does not complete, its files are deleted.
   *
   * A name has 1 to 128 characters: letters, digits, spaces and punctuation of any script, but none
   * of `/ \ : * ? " < > |`. It begins with no dot and no space, and ends with neither.
   *
   * @example
   * defineTask({
   *   name: 'totals',
   *   files: true,
   *   run: async (input, { files }) => {
   *     await files.write('totals.csv', ['month,total\n', '1,100\n'], { type: 'text/csv' })
   *   },
   * })
   *
   * @throws {TypeError} The definition has no `files: true`, the name or the media type is not valid,
   * this run has used the name before, or the run has more than 1000 files.
   * @throws {HttpError} 500 `result_files_too_large`: the files of the run have more than
   * `maxFileBytes`. The task is not retried.
   * @throws {StoreUnavailableError} The blobs failed, or are full.
   */
  readonly write: (
    name: string, content: FileContent, options?: WriteFileOptions,
  ) => Promise<TaskFile>
}

export interface KeptFile extends TaskFile {
  readonly blob: string
}

/** Files that a later run can take over, if its checkpoint has the result of `keep`. */
export interface KeepableFiles extends TaskFiles {
  /**
   * Keeps all complete files of this run, even when it fails. Returns them in the order of `write`.
   *
   * @throws {Error} Another run has replaced this one, or the task has ended.
   */
  keep(): Promise<readonly KeptFile[]>
  /**
   * Takes over the files that an earlier run has kept. Call it before the first `write`. Resolves to
   * `false`, and takes none, if one of them no longer exists.
   */
  adopt(files: readonly KeptFile[]): Promise<boolean>
}

/** Returns whether a later run can take over these files. Files of a test are not kept. */
export function areKeepable(files: TaskFiles): files is KeepableFiles {
  return 'keep' in files && 'adopt' in files
}
