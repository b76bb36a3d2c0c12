import type { DecoderMemory } from '../http/body/counted-body.js'
import { REQUEST_CODINGS, decodeBytes, type DecodeOptions } from '../http/body/decode.js'
import { isJsonObject, isWholeNumber } from '../http/body/json.js'
import { HttpError, httpError } from '../http/errors.js'
import { readFailure } from '../http/failure.js'
import type { MaybePromise } from '../runtime/maybe-promise.js'
import { newId } from '../runtime/random-id.js'
import { bytesBetween } from '../runtime/text.js'
import type { Schema } from '../schema/schema.js'
import type { Blobs } from '../stores/blobs.js'
import { deleteParts, partBytes, renewParts } from '../stores/parts.js'
import {
  REPEATABLE_ATTEMPTS, defineTask, type TaskDefinition, type TaskOptions,
} from '../tasks/definition/define.js'
import type { EndedTask, ExternalResource } from '../tasks/definition/external-resource.js'
import type { BodyStore, SpooledBody } from '../tasks/http/spool-body.js'
import { deleteTails } from './tails.js'

type MemberChecks = Readonly<Record<string, (value: unknown) => boolean>>

const HOUR_MS = 3_600_000
const WEEK_MS = 604_800_000
const CODINGS: readonly unknown[] = ['identity', ...REQUEST_CODINGS]

interface SpoolOptions extends Pick<SpooledTaskOptions, 'blobs' | 'blobRetentionMs' | 'timeoutMs'> {
  /** Name of the public function, for error messages. */
  readonly where: string
  readonly prefix: string
  /** True if the report is read from its parts once the task has ended. */
  readonly keepsReport: boolean
}

/** Bodies of requests that wait in blobs for their tasks, and the parts of the reports. */
export class Spool implements BodyStore {
  readonly blobs: Blobs
  readonly retentionMs: number
  /** Lifetime of parts, which are written during a run. In milliseconds. */
  readonly partsMs: number
  readonly external: ExternalResource<SpooledBody>
  private readonly prefix: string

  /** @throws {TypeError} `blobRetentionMs` is less than a second. */
  constructor(
    { where, prefix, keepsReport, blobs, blobRetentionMs = WEEK_MS, timeoutMs = HOUR_MS }: SpoolOptions,
  ) {
    if (!blobs) throw new TypeError(`${where}: background.blobs is required`)
    if (typeof blobs.put !== 'function') {
      throw new TypeError(`${where}: background.blobs must be blobs, such as those of memory()`)
    }
    if (!(blobRetentionMs >= 1000)) {
      throw new TypeError(`${where}: background.blobRetentionMs must be 1000 or more`)
    }
    this.blobs = blobs
    this.retentionMs = blobRetentionMs
    this.partsMs = blobRetentionMs + timeoutMs
    this.prefix = prefix
    /** Deletes the body, and the parts unless clients read them. */
    const release = async (blob: string, task: EndedTask | undefined, isGone: boolean) => {
      await blobs.delete(blob)
      if (task === undefined) return
      const { attempt, status, parts = [] } = task
      if (isGone || !keepsReport) await deleteParts(blobs, blob, parts)
      // A run that completed has no tail, and then a task has one only if it ran before.
      await deleteTails(blobs, blob, parts, status === 'completed' ? attempt - 1 : attempt)
    }
    this.external = {
      of: ({ blob }) => blob,
      release: (blob, task) => release(blob, task, false),
      remove: (blob, task) => release(blob, task, true),
      async renew(blob, ttlMs, task) {
        await renewParts(blobs, blob, task?.parts ?? [], ttlMs)
        return await blobs.renew(blob, ttlMs) !== undefined
      },
      async bytes(blob, { status, parts = [] }) {
        if (status === 'completed') return keepsReport ? partBytes(parts) : 0
        return partBytes(parts) + ((await blobs.stat(blob))?.size ?? 0)
      },
    }
  }

  /**
   * Returns the schema of a spooled body with further properties, each with its check. The check of
   * the key prevents a client that starts tasks by name from reading other blobs. Written out,
   * because ajv would be a cost for handlers without background tasks too.
   */
  input<T extends SpooledBody = SpooledBody>(members: MemberChecks = {}): Schema<T, T> {
    const key = new RegExp(`^${this.prefix}[A-Za-z0-9_-]{22}$`)
    const checks: MemberChecks = {
      blob: (value) => typeof value === 'string' && key.test(value),
      coding: (value) => CODINGS.includes(value),
      size: isWholeNumber,
      ...members,
    }
    const validate = (value: unknown) => {
      const body: Readonly<Record<string, unknown>> = isJsonObject(value) ? value : {}
      const wrong = Object.keys(checks).filter((name) => !checks[name]?.(body[name]))
      if (wrong.length === 0) return { value: value as T }
      return { issues: wrong.map((name) => ({ path: [name], message: 'is not valid' })) }
    }
    return { '~standard': { version: 1, vendor: 'longhaul', validate } }
  }

  newKey(): string {
    return this.prefix + newId()
  }

  /** Returns the bytes as sent. */
  async open({ blob }: SpooledBody, start = 0): Promise<AsyncIterable<Uint8Array>> {
    const bytes = await this.blobs.open(blob, start === 0 ? undefined : { start })
    if (bytes !== undefined) return bytes
    throw httpError('gone', { message: 'The body no longer exists.' })
  }
}

interface CodedBody extends Pick<SpooledBody, 'coding'> {
  /** Returns the bytes as sent, from a position on. */
  readonly open: (start: number) => MaybePromise<AsyncIterable<Uint8Array>>
}

/**
 * Returns the decoded bytes of a spooled body from a position on. Reads a coded body from its
 * beginning, because a coding cannot be entered midway.
 */
export async function decodedFrom(
  { coding, open }: CodedBody, byte: number, limits: DecodeOptions, memory?: DecoderMemory,
): Promise<AsyncIterable<Uint8Array>> {
  if (coding === 'identity') return decodeBytes(await open(byte), coding, limits)
  const decoded = decodeBytes(await open(0), coding, limits, memory)
  return byte === 0 ? decoded : bytesBetween(decoded, byte)
}

/** Settings of a task whose input is a request body in blobs. Times are in milliseconds. */
export interface SpooledTaskOptions extends Pick<TaskOptions<never, never>,
  'name' | 'backoff' | 'pool' | 'priority' | 'retentionMs' | 'failedRetentionMs' | 'maxPerOwner'
  | 'maxRunningPerOwner' | 'version' | 'onFailed'> {
  /** Stores the bodies that wait for their task. */
  readonly blobs: Blobs
  /**
   * Time that the blobs of a task are kept. It must be longer than a task may wait for its run.
   * Default: 604_800_000 (7 days).
   *
   * A task for later, and a failed or cancelled one, renews them: they live as long as it needs
   * them.
   */
  readonly blobRetentionMs?: number
  /** Maximum time of one run. Default: 3_600_000 (1 hour). */
  readonly timeoutMs?: number
  /**
   * Maximum number of runs. Default: 7.
   *
   * A pause (`backoff`) is between two runs.
   *
   * By default the pauses add up to 31 to 63 seconds. An error marked by `permanent()`, and an
   * `HttpError` below 500 (except 408, 425 and 429), end the attempts.
   */
  readonly attempts?: number
}

export const SPOOLED_TASK = {
  name: 0, blobs: 0, blobRetentionMs: 0, timeoutMs: 0, attempts: 0, backoff: 0, pool: 0, priority: 0,
  retentionMs: 0, failedRetentionMs: 0, maxPerOwner: 0, maxRunningPerOwner: 0, version: 0, onFailed: 0,
} satisfies Record<keyof SpooledTaskOptions, 0>

interface SpooledWork<I, R, P> {
  /** True if the runs write files. Default: false. */
  readonly files?: boolean
  readonly input: Schema<I, I>
  readonly run: TaskDefinition<I, R, unknown, I, string, P>['run']
  readonly checkpoint: NonNullable<TaskOptions<I, R, unknown, I, unknown, string, P>['checkpoint']>
}

export function spooledTask<I extends SpooledBody, R, P = never>(
  spool: Spool, options: SpooledTaskOptions, { input, run, checkpoint, files = false }: SpooledWork<I, R, P>,
): TaskDefinition<I, R, unknown, I, string, P> {
  const {
    blobs, blobRetentionMs, timeoutMs = HOUR_MS, attempts = REPEATABLE_ATTEMPTS, ...settings
  } = options
  return defineTask<I, R, unknown, I, unknown, string, P>({
    ...settings, timeoutMs, attempts, input, checkpoint, ...files && { files },
    // `R` is a type parameter here, so the compiler cannot tell that JSON can carry it.
    run: run as TaskOptions<I, R, unknown, I, unknown, string, P>['run'],
    shared: blobs.shared, external: spool.external,
  })
}

/** Returns the error of a task that failed after part of its work. */
export function failedAfter(error: unknown, done: number, report: string): unknown {
  const { status, code, message, headers, expected } = readFailure(error)
  if (!expected || done === 0) return error
  return new HttpError(status, code, { message: `${message} Before that: ${report}`, headers })
}
