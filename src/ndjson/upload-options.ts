import type { DecodeOptions } from '../http/body/decode.js'
import type { HttpRequest } from '../http/exchange.js'
import { NDJSON_TYPES } from '../http/headers/ndjson-types.js'
import {
  bytes, flag, func, readOptions, value, whole, type Filled, type OptionTable,
} from '../runtime/options.js'
import type { MaybePromise } from '../runtime/maybe-promise.js'
import { checkNames } from '../runtime/option-names.js'
import type { RecordPosition } from '../records/position.js'
import { warnOfError, type RecordErrorPlace } from '../records/error-reports.js'
import { assertSchema, type Schema } from '../schema/schema.js'
import type { TaskDefinition } from '../tasks/definition/define.js'
import type { SpooledBody } from '../tasks/http/spool-body.js'
import { SPOOLED_TASK, type SpooledTaskOptions } from '../records/spool.js'
import type { UploadResult } from '../wire/report.js'
import { areMediaTypes, distinctTypes } from './media-type.js'
import type { UploadSource } from './upload-source.js'
import type { WriteOutcome } from './write-outcomes.js'

/** The response that a request asks for, and its body. */
export interface UploadAsked {
  /** Content coding of the body. */
  readonly coding: string
  /** Media type of the response. */
  readonly resultType: string
  /** True if the request asks that nothing is written. */
  readonly isDry: boolean
}

/** Second argument of `write`. */
export interface WriteContext {
  /** Line number of each record, from 1. */
  readonly lines: readonly number[]
  /** Aborts when the client disconnects or the task is stopped. */
  readonly signal: AbortSignal
  /**
   * Owner of the upload, as `owner` of `taskEndpoints` returns it. `undefined` without
   * `background`.
   */
  readonly owner: string | undefined
  /** Tenant of that owner, if there is one. */
  readonly tenant: string | undefined
  /** Value of `context` of `taskEndpoints`; without `background`, the context of the request. */
  readonly context: unknown
  /**
   * Id of the task, the same in all its runs. Store the `cursor` under it. `undefined` for a
   * synchronous upload.
   */
  readonly taskId: string | undefined
  /**
   * Returns the position after this batch as text. Store it in the transaction that writes the
   * records, and return it from `resume`. Replace only `previous` by it: then each record is
   * written once, even if a suspended process continues after another one has begun.
   * @param outcomes - the outcomes that `write` returns, if it returns any
   */
  readonly cursor: (outcomes?: readonly WriteOutcome[] | null) => string
  /**
   * The cursor of the last `write` of this run, or the one that `resume` returned; `undefined`
   * before the first. If another cursor is stored, another run has continued the upload: write
   * nothing, and throw `httpError('attempt_replaced')`.
   */
  readonly previous: string | undefined
}

/** Argument of `resume`. */
export interface ResumeContext extends Pick<WriteContext, 'owner' | 'tenant' | 'context' | 'signal'> {
  readonly taskId: string
}

/** Options of `ndjsonUpload`. */
export interface UploadOptions<T = object> {
  /**
   * Validates each record, up to 8 at the same time if it is asynchronous. Default: any object.
   *
   * A record that is not valid is a failed line.
   */
  readonly schema?: Schema<T>
  /**
   * Returns a key that no two lines of one upload may share. Requires `maxLines`. Default: lines
   * are not compared.
   *
   * A later line with the key of an earlier valid one fails as `duplicate_item`.
   *
   * The keys of all lines are in memory, with some 150 bytes each. Lines with the key `undefined`
   * are not compared. A task that continues reads the body from its start.
   */
  readonly key?: (record: T) => string | undefined
  /**
   * Writes a batch of records. Returns nothing if all records were written, or else an outcome for
   * each, in order: see `WriteOutcome`.
   *
   * An error that it throws ends the upload and is the response, with a report of the batches
   * before it. Anything else that it returns is such an error. The next batch is read afterwards,
   * so memory stays flat.
   */
  readonly write: (
    records: T[], context: WriteContext,
  ) => MaybePromise<readonly WriteOutcome[] | null | void>
  /** Reads records from other formats. Default: NDJSON, one JSON object on each line. */
  readonly source?: UploadSource
  /**
   * Media types of bodies to accept besides those of `source`, such as
   * `['application/vnd.acme.users']`. Default: none.
   *
   * Without `source`: besides the usual types of NDJSON.
   */
  readonly moreMediaTypes?: readonly string[]
  /**
   * Returns the `cursor` that was stored with the last batch of this upload. Default: after the
   * last batch whose position longhaul has saved.
   *
   * Return `undefined` if there is none. A task that runs again continues after that batch.
   *
   * With the default, one batch is written again after a crash.
   */
  readonly resume?: (context: ResumeContext) => MaybePromise<string | null | undefined>
  /**
   * Maximum number of records in one `write`. A batch also ends after about 1 MiB. Default: 500.
   */
  readonly batchSize?: number
  /**
   * Maximum number of failed lines that the response describes. Default: 100.
   *
   * All are counted.
   */
  readonly maxErrors?: number
  /** Maximum length of a line in bytes. A longer line fails. Default: 1_048_576 (1 MiB). */
  readonly maxLineBytes?: number
  /**
   * Maximum number of lines, including blank lines. Default: unlimited.
   *
   * If there are more, the lines up to it are written, and the response is a 413 with the report.
   */
  readonly maxLines?: number
  /**
   * Maximum number of failed lines. Default: unlimited.
   *
   * If there are more, the upload ends with 422 `too_many_bad_lines` and the report so far. Batches
   * before that are written.
   */
  readonly maxBadLines?: number
  /**
   * `true`: reads and validates the whole body before anything is written. Requires `maxBadLines`
   * and `background`. Default: false.
   *
   * If it has more than `maxBadLines` failed lines, nothing is written.
   *
   * Each upload is then a task, because only a stored body can be read twice. Errors of `write` are
   * found later, and stop the upload as they do without this option.
   */
  readonly checkFirst?: boolean
  /**
   * Returns `true` for a request that only asks for the report. Default: all requests write.
   *
   * The lines are read, validated and compared, and `write` is not called.
   *
   * The response then has `dryRun: true`.
   */
  readonly dryRun?: (request: HttpRequest) => boolean
  /**
   * Maximum size of the body as sent, in bytes. Default: 17_179_869_184 (16 GiB).
   *
   * A larger one gets a 413.
   */
  readonly maxBodyBytes?: number
  /** Maximum size of the decoded body, in bytes. Default: 17_179_869_184 (16 GiB). */
  readonly maxDecodedBytes?: number
  /** Maximum number of decoded bytes per byte sent, checked above 1 MiB. Default: 250. */
  readonly maxRatio?: number
  /**
   * Receives errors among the outcomes that `write` returns, unless they are for the client; at
   * most ten in one request or attempt. Default: a process warning.
   *
   *
   * In the background `place` is the attempt of the task.
   */
  readonly onError?: (error: unknown, place?: RecordErrorPlace) => unknown
  /**
   * Lets clients request that a task with these options reads the upload in the background.
   * Default: all responses are synchronous.
   *
   * Its result is the body of the synchronous response.
   */
  readonly background?: UploadBackgroundOptions
}

/**
 * Options of the task that reads uploads in the background. A task that runs again continues after
 * the last committed batch, and its report covers all runs. One batch may be written twice, so make
 * `write` idempotent, or use `resume`.
 */
export interface UploadBackgroundOptions extends SpooledTaskOptions {
  /**
   * `true`: keeps the outcome of every line for `uploadItems`. Requires `maxLines`. Default: false.
   *
   * `uploadItems` returns them once the task has ended, even if it was cancelled or has failed.
   * Their size grows with the body.
   *
   * They are in `blobs`, and count for `maxFileBytesPerOwner`.
   */
  readonly keepItems?: boolean
  /**
   * `true`: the completed task has the failed lines in a result file `rejected.ndjson`. Requires
   * `maxLines`, and `blobs` of `createTasks`. Default: false.
   *
   * A `source` may write another file, such as `rejected.csv`. Without failed lines there is no
   * file.
   */
  readonly rejectedFile?: boolean
}

const BACKGROUND = {
  ...SPOOLED_TASK, keepItems: 0, rejectedFile: 0,
} satisfies Record<keyof UploadBackgroundOptions, 0>

/** Input of the task: a body in the blobs. */
export interface SpooledUpload extends SpooledBody {
  /** Present if the request asked that nothing is written. */
  readonly dryRun?: true
}

/** Task of an upload that is read in the background. */
export type UploadTask = TaskDefinition<
  SpooledUpload, UploadResult, unknown, SpooledUpload, string, RecordPosition
>

const MAX_BYTES = 2 ** 34
const MAX_LINE_BYTES = 268_435_456

function isSource(given: unknown): boolean {
  const { mediaTypes, read } = Object(given) as Partial<UploadSource>
  return Array.isArray(mediaTypes) && typeof read === 'function'
}

const UPLOAD = {
  write: func({ required: true }),
  source: value('an object with mediaTypes and read, such as streamJson returns', isSource),
  moreMediaTypes: value('an array of media types without parameters', areMediaTypes),
  resume: func(),
  schema: value('a schema'),
  key: func(),
  batchSize: whole({ min: 1, default: 500 }),
  maxErrors: whole({ max: 10_000, default: 100 }),
  maxLineBytes: whole({ min: 1, max: MAX_LINE_BYTES, default: 1_048_576 }),
  maxLines: bytes({ min: 1, default: Infinity }),
  maxBadLines: bytes({ default: Infinity }),
  checkFirst: flag({ default: false }),
  dryRun: func(),
  maxBodyBytes: bytes({ min: 1, default: MAX_BYTES }),
  maxDecodedBytes: bytes({ min: 1, default: MAX_BYTES }),
  maxRatio: bytes({ min: 1, default: 250 }),
  onError: func(),
  background: value('an object'),
} satisfies OptionTable<UploadOptions<never>>

export type UploadSettings<T> = ReturnType<typeof readUploadOptions<T>>

export function readUploadOptions<T>(options: UploadOptions<T>) {
  const read = readOptions<UploadOptions<T>, typeof UPLOAD>('ndjsonUpload', options, UPLOAD)
  const { background, schema, maxBodyBytes, maxDecodedBytes, maxRatio } = read
  if (schema !== undefined) assertSchema(schema, 'ndjsonUpload: schema')
  if (background !== undefined) checkNames('ndjsonUpload: background', background, BACKGROUND)
  checkTogether(read)
  const limits: Required<DecodeOptions> = { maxBodyBytes, maxDecodedBytes, maxRatio }
  const { source: { mediaTypes: known } = { mediaTypes: NDJSON_TYPES }, moreMediaTypes = [] } = read
  const mediaTypes = distinctTypes(known, moreMediaTypes)
  return { ...read, onError: read.onError ?? warnOfError, limits, mediaTypes }
}

/** Checks options that need another one. */
function checkTogether<T>(
  { background, resume, key, maxLines, checkFirst, maxBadLines }: Filled<UploadOptions<T>, typeof UPLOAD>,
): void {
  if (resume !== undefined && background === undefined) {
    throw new TypeError('ndjsonUpload: resume needs background, because only a task continues')
  }
  if (key !== undefined && maxLines === Infinity) {
    throw new TypeError('ndjsonUpload: key needs maxLines, because the keys of all lines are in memory')
  }
  for (const name of ['keepItems', 'rejectedFile'] as const) {
    if (background?.[name] !== true || maxLines < Infinity) continue
    throw new TypeError(`ndjsonUpload: background.${name} needs maxLines, because the report has all lines`)
  }
  if (!checkFirst) return
  if (background === undefined) {
    throw new TypeError('ndjsonUpload: checkFirst needs background, because only a task reads a body twice')
  }
  if (maxBadLines === Infinity) {
    throw new TypeError('ndjsonUpload: checkFirst needs maxBadLines, such as 0')
  }
}
