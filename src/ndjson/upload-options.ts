import type { DecodeOptions } from '../http/body/decode.js'
import type { HttpRequest } from '../http/exchange.js'
import type { Blobs } from '../stores/blobs.js'
import type { TaskDefinition } from '../tasks/definition/define.js'
import type { SpooledBody } from '../tasks/definition/spool.js'
import type { SpooledTaskOptions } from '../tasks/definition/spooled-task.js'
import type { TaskEndpoints } from '../tasks/http/endpoints.js'
import type { ReadWork } from '../tasks/http/submit-endpoint-options.js'
import { checkNames } from '../runtime/option-names.js'
import { checkIntake, type IntakeOptions } from './intake.js'
import type { UploadResult } from './report.js'

/** How much an upload may bring. */
export interface UploadLimits {
  /** Bytes as sent. Default 16 GiB. */
  readonly maxBytes?: number
  /** Bytes once decoded. Default 16 GiB. */
  readonly maxDecodedBytes?: number
  /** Decoded bytes for one byte sent. Default 250. */
  readonly maxRatio?: number
}

export interface UploadOptions<T = object, C = unknown> extends IntakeOptions<T>, UploadLimits {
  /**
   * Has uploads with `Prefer: respond-async` spooled, answered with 202 and read in the background.
   * `task` is made by `uploadTask`, and is among the definitions of the tasks whose `endpoints`
   * these are. Without it the preference is not honoured.
   *
   * Uploads may then have an Idempotency-Key. A direct one that has one is read as a whole before
   * it is written, so it may have 1 MiB; a larger one is a 400 `idempotency_needs_async`. Without
   * `background` the field is not looked at: put `idempotent()` in front.
   */
  readonly background?: { readonly endpoints: TaskEndpoints<C>; readonly task: UploadTask }
}

export interface UploadTaskOptions<T = object> extends IntakeOptions<T>, UploadLimits, SpooledTaskOptions<SpooledBody, UploadResult> {
  /** Where uploads wait for their task. */
  readonly blobs: Blobs
  /**
   * How long an upload is kept at the most, in milliseconds: longer than its task may have to wait.
   * Default 7 days.
   */
  readonly keepMs?: number
}

/** An upload's task, and how a request becomes its input. Made by `uploadTask`. */
export interface UploadTask extends TaskDefinition<SpooledBody, UploadResult> {
  /** Writes the body, as it was sent, to the blobs. Resolves to the task's input. */
  spool(request: HttpRequest, coding: string, maxBytes: number): Promise<ReadWork>
}

/** The handler and its task are given the same options. */
const KNOWN = {
  write: 0, record: 0, batchSize: 0, maxErrors: 0, maxLineBytes: 0, maxLines: 0, maxBytes: 0, maxDecodedBytes: 0, maxRatio: 0, background: 0,
  blobs: 0, keepMs: 0, name: 0, timeoutMs: 0, attempts: 0, backoff: 0, retentionMs: 0, maxPerOwner: 0,
} satisfies Record<keyof UploadOptions | keyof UploadTaskOptions, 0>

const SIZE = 2 ** 34

/** Throws a `TypeError` when an option makes no sense. */
export function checkUpload<T>(name: string, options: IntakeOptions<T>): void {
  checkNames(name, options, KNOWN)
  checkIntake(name, options)
}

/** The limits with their defaults. Throws a `TypeError` when one makes no sense. */
export function decodeOptions(name: string, { maxBytes = SIZE, maxDecodedBytes = SIZE, maxRatio = 250 }: UploadLimits): DecodeOptions {
  for (const [key, value] of Object.entries({ maxBytes, maxDecodedBytes, maxRatio })) {
    if (!(value >= 1)) throw new TypeError(`${name}: ${key} must be 1 or more, not ${String(value)}`)
  }
  return { maxBytes, maxDecodedBytes, maxRatio }
}
