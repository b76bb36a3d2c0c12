import type { HttpRequest } from '../http/exchange.js'
import { findRequester, type OwnerOption, type Requester } from '../http/requester.js'
import type { IdempotentOptions } from '../idempotency/policy.js'
import type { MaybePromise } from '../runtime/maybe-promise.js'
import {
  bytes, duration, flag, func, hasMethod, readOptions, value, whole, type Filled, type OptionTable,
} from '../runtime/options.js'
import type { Blobs } from '../stores/blobs.js'
import type { Store } from '../stores/store.js'
import { StatusPath } from '../tasks/http/status-path.js'
import { ownerBytesLimit, type ReserveLimits } from '../tasks/record/owner-bytes.js'
import type { UploadLimits } from './protocol.js'

/** Options of `resumableUpload`. Times are in milliseconds. */
export interface ResumableUploadOptions<C = unknown>
  extends Pick<IdempotentOptions, 'retentionMs' | 'waitMs' | 'maxResponseBytes'> {
  /** Holds the bytes until the handler has responded. */
  readonly blobs: Blobs
  /**
   * Holds the state of the uploads and the responses. Shared if several processes serve uploads.
   */
  readonly store: Store
  /**
   * Finds the owner of a request, as for `taskEndpoints`.
   *
   * A function, `'principal'` or `'anyone'`. Only the owner sees an upload and may append to it.
   */
  readonly owner: OwnerOption<C>
  /**
   * `true`: the function `owner` may return `undefined` for an anonymous client, whose uploads have
   * no owner. Default: false.
   *
   * By default such a request gets a 401.
   */
  readonly anonymous?: boolean
  /** Path of an upload below the mount path, with `{id}`. `resource` must be mounted there. */
  readonly uploadPath: string
  /**
   * Called before an upload is created, with the request without its body. Throws to reject it.
   * Default: everything is accepted.
   */
  readonly check?: (request: HttpRequest<C>) => MaybePromise<void>
  /**
   * Maximum size of the body as sent, in bytes. Default: 17_179_869_184 (16 GiB).
   *
   * A larger one gets a 413.
   */
  readonly maxBodyBytes?: number
  /**
   * Maximum body of one request in bytes. Default: unlimited.
   *
   * A larger one gets a 413.
   */
  readonly maxAppendBytes?: number
  /**
   * Minimum size of the body of one request in bytes. Default: 0.
   *
   * A smaller one gets a 400, except the last one, an empty first one, and one whose connection
   * broke.
   */
  readonly minAppendBytes?: number
  /**
   * Size of a stored part in bytes. Default: 8_388_608 (8 MiB).
   *
   * If a process dies, an upload loses at most this number of bytes.
   */
  readonly partBytes?: number
  /**
   * Maximum number of parts of an upload. Each request adds at least one. Default: 10_000.
   *
   * More get a 413.
   */
  readonly maxParts?: number
  /**
   * Time from the creation of an upload until its last byte. Default: 86_400_000 (a day).
   *
   * After it, the upload gets a 404.
   */
  readonly maxAgeMs?: number
  /**
   * Maximum number of unfinished uploads of one owner. Default: 100.
   *
   * More get a 429. A client without an owner counts by its principal, or by its network.
   */
  readonly maxPerOwner?: number
  /**
   * Maximum size of the unprocessed uploads of one owner in this store, and of stored bodies
   * (`maxBytesPerOwner` of `taskEndpoints`).
   *
   * More get a 429 `too_many_bytes`; a larger upload gets a 413.
   *
   * An upload that was deleted, has expired or has a response no longer counts. While the handler
   * runs, the upload does not count, because the handler may store the bytes again. An upload with
   * a length counts with its length from the start. A client without an owner counts by its
   * principal, or by its network.
   *
   * Default: a quarter of `maxBytes` of the blobs, 64 MiB in `memory()`. For blobs without
   * `maxBytes`: 64 MiB or `maxBodyBytes`, whichever is more.
   */
  readonly maxBytesPerOwner?: number
}

const DAY_MS = 86_400_000

const OPTIONS = {
  blobs: value<Blobs>('the blobs of an engine, such as those of memory()', hasMethod('put'), { required: true }),
  store: value<Store>('the store of an engine, such as that of memory()', hasMethod('create'), { required: true }),
  // Checked by `findRequester` and `StatusPath`.
  owner: value(),
  anonymous: flag({ default: false }),
  uploadPath: value(),
  check: func(),
  maxBodyBytes: bytes({ min: 1, default: 2 ** 34 }),
  maxAppendBytes: bytes({ min: 1, default: Infinity }),
  minAppendBytes: bytes({ default: 0 }),
  partBytes: bytes({ min: 1, default: 2 ** 23 }),
  maxParts: whole({ min: 1, infinity: true, default: 10_000 }),
  maxAgeMs: duration({ min: 1000, default: DAY_MS }),
  maxPerOwner: whole({ min: 1, infinity: true, default: 100 }),
  maxBytesPerOwner: bytes({ min: 1 }),
  retentionMs: duration({ min: 1000, default: DAY_MS }),
  waitMs: duration({ default: 30_000 }),
  maxResponseBytes: bytes({ default: 2 ** 20 }),
} satisfies OptionTable<ResumableUploadOptions>

/** Options with their defaults, and values that were made of them. */
export interface Settings<C = unknown> extends Filled<ResumableUploadOptions<C>, typeof OPTIONS> {
  readonly requester: (request: HttpRequest<C>) => Requester
  readonly path: StatusPath
  readonly limits: UploadLimits
  readonly maxBytesPerOwner: number
}

export function toSettings<C>(options: ResumableUploadOptions<C>): Settings<C> {
  const filled = readOptions('resumableUpload', options, OPTIONS as OptionTable<ResumableUploadOptions<C>> & typeof OPTIONS)
  const { blobs, store, owner, uploadPath, minAppendBytes, maxAppendBytes, maxAgeMs } = filled
  if (store.shared && !blobs.shared) {
    throw new TypeError('resumableUpload: the store is shared between processes, and the blobs '
      + 'are not; pass shared blobs, such as new FolderBlobs(folder, { shared: true })')
  }
  if (minAppendBytes > maxAppendBytes) {
    throw new TypeError('resumableUpload: minAppendBytes must not be more than maxAppendBytes')
  }
  const maxBytesPerOwner = ownerBytesLimit(
    'resumableUpload', filled.maxBytesPerOwner, blobs, filled.maxBodyBytes,
  )
  const maxBodyBytes = Math.min(filled.maxBodyBytes, maxBytesPerOwner)
  return {
    ...filled, maxBytesPerOwner,
    requester: findRequester(owner, {
      where: 'resumableUpload', name: 'owner', question: 'Say to whom uploads belong.',
      anyone: 'lets everybody who knows the id of an upload see and cancel it.',
      anonymous: filled.anonymous,
    }),
    path: new StatusPath(uploadPath, 'resumableUpload: uploadPath', '/uploads/{id}'),
    limits: { maxBodyBytes, maxAppendBytes, minAppendBytes, maxAgeMs },
  }
}

export function reserveLimits<C>(
  { limits, maxBytesPerOwner, retentionMs }: Settings<C>,
): ReserveLimits {
  return { maxBytes: maxBytesPerOwner, ttlMs: limits.maxAgeMs + retentionMs }
}
