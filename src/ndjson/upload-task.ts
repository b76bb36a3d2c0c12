import { createHash } from 'node:crypto'
import { decodeBytes, REQUEST_CODINGS } from '../http/decode.js'
import { HttpError, httpError } from '../http/errors.js'
import type { HttpRequest } from '../http/exchange.js'
import { readFailure } from '../http/failure.js'
import { newId } from '../http/random-id.js'
import { jsonSchema } from '../schema/index.js'
import type { Blobs } from '../stores/blobs.js'
import { defineTask, type ReadWork, type TaskContext, type TaskDefinition, type TaskOptions } from '../tasks/index.js'
import { checkIntake, Intake, type IntakeOptions } from './intake.js'
import { UploadReport, type UploadResult } from './report.js'
import { decodeOptions, type UploadLimits } from './upload.js'

/** What a spooled upload is, as the input of its task. */
export interface SpooledUpload {
  /** The key of its blob. */
  readonly blob: string
  /** Its content coding. */
  readonly coding: string
  /** Bytes as sent. */
  readonly size: number
}

export interface UploadTaskOptions<T = object> extends IntakeOptions<T>, UploadLimits,
  Pick<TaskOptions<SpooledUpload, UploadResult>, 'name' | 'timeoutMs' | 'attempts' | 'backoff' | 'retentionMs' | 'maxPerOwner'> {
  /** Where uploads wait for their task. */
  readonly blobs: Blobs
  /** How long an upload is kept at the most, in milliseconds: longer than its task may have to wait. Default 7 days. */
  readonly keepMs?: number
}

/** An upload's task, and how a request becomes its input. Made by `uploadTask`. */
export interface UploadTask extends TaskDefinition<SpooledUpload, UploadResult> {
  /** Writes the body, as it was sent, to the blobs. Resolves to the task's input. */
  spool(request: HttpRequest, coding: string, maxBytes: number): Promise<ReadWork>
}

const PREFIX = 'ndjson-upload/'
const WEEK_MS = 604_800_000
const HOUR_MS = 3_600_000

const input = jsonSchema<SpooledUpload>({
  type: 'object',
  required: ['blob', 'coding', 'size'],
  properties: {
    // Nobody who starts tasks by name can have another blob read.
    blob: { type: 'string', pattern: `^${PREFIX}[A-Za-z0-9_-]{22}$` },
    coding: { enum: ['identity', ...REQUEST_CODINGS] },
    size: { type: 'integer', minimum: 0 },
  },
})

/**
 * Defines the task that reads spooled uploads: give it to `createTasks`, and to `ndjsonUpload` as `background`. Its result is the body of the
 * direct answer. Default time-out: one hour.
 *
 * With `attempts` above 1, or a queue that runs a task again after a crash, an upload is read again from its first line: make `write` repeatable.
 *
 * @throws {TypeError} when an option makes no sense
 */
export function uploadTask<T = object>(options: UploadTaskOptions<T>): UploadTask {
  checkIntake('uploadTask', options)
  const limits = decodeOptions('uploadTask', options)
  const { name, blobs, keepMs = WEEK_MS, timeoutMs = HOUR_MS, attempts, backoff, retentionMs, maxPerOwner } = options
  if (!(keepMs >= 1000)) throw new TypeError('uploadTask: keepMs must be 1000 or more')

  const run = async ({ blob, coding, size }: SpooledUpload, task: TaskContext): Promise<UploadResult> => {
    const bytes = await blobs.open(blob)
    if (bytes === undefined) throw httpError('gone', { message: 'The upload is no longer here.' })
    const report = new UploadReport(options.maxErrors ?? 100)
    const { signal, owner, context } = task
    const watched = watch(bytes, signal, (done) => { task.progress(done, size, report.message) })
    const write: typeof options.write = (records, where) => {
      // A piece that is read may have many batches.
      signal.throwIfAborted()
      return options.write(records, where)
    }
    try {
      for await (const _ of new Intake({ ...options, write }, report, { signal, owner, context }, false).run(decodeBytes(watched, coding, limits)));
    } catch (error) {
      throw withMessage(error, report)
    }
    return report.result
  }

  const definition = defineTask<SpooledUpload, UploadResult>({
    name, input, run, timeoutMs, shared: blobs.shared, keeps: { of: ({ blob }) => blob, release: (blob) => blobs.delete(blob) },
    ...attempts !== undefined && { attempts }, ...backoff && { backoff }, ...retentionMs !== undefined && { retentionMs },
    ...maxPerOwner !== undefined && { maxPerOwner },
  })

  const spool: UploadTask['spool'] = async (request, coding, maxBytes) => {
    const blob = PREFIX + newId()
    const hash = createHash('sha256')
    const { size } = await blobs.put(blob, hashed(decodeBytes(request.body.stream(), 'identity', { maxBytes }), hash), {
      expiresAt: Date.now() + keepMs, signal: request.signal,
    })
    return { input: { blob, coding, size }, body: { coding, sha256: hash.digest('hex') }, discard: () => blobs.delete(blob) }
  }
  return Object.assign(definition, { spool })
}

async function* hashed(source: AsyncIterable<Uint8Array>, hash: { update(bytes: Uint8Array): unknown }): AsyncGenerator<Uint8Array, void, undefined> {
  for await (const piece of source) {
    hash.update(piece)
    yield piece
  }
}

/** Tells how far the reading is, and ends it when the task is stopped. */
async function* watch(
  source: AsyncIterable<Uint8Array>, signal: AbortSignal, progress: (done: number) => void,
): AsyncGenerator<Uint8Array, void, undefined> {
  let done = 0
  for await (const piece of source) {
    signal.throwIfAborted()
    yield piece
    done += piece.byteLength
    progress(done)
  }
}

/** A failed task shows no report, so its message says how far it came, where it shows at all. */
function withMessage(error: unknown, report: UploadReport): unknown {
  const { status, code, message, headers, expected } = readFailure(error)
  if (!expected || report.total === 0) return error
  return new HttpError(status, code, { message: `${message} Before that: ${report.message}`, headers })
}
