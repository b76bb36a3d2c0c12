import type { HttpRequest } from '../http/exchange.js'
import { checkNames } from '../runtime/option-names.js'
import type { MaybePromise } from '../runtime/maybe-promise.js'
import type { Blobs } from '../stores/blobs.js'
import type { Store } from '../stores/store.js'
import { findRequester, type OwnerOption, type Requester } from '../http/requester.js'
import { ownerBytesLimit, type ReserveLimits } from '../tasks/record/owner-bytes.js'
import { StatusPath } from '../tasks/http/status-path.js'

/** Options of `resumableUpload`. Times are in milliseconds. */
export interface ResumableUploadOptions<C = unknown> {
  /** Holds the bytes until the handler has answered. */
  readonly blobs: Blobs
  /** Holds the state of the uploads and the answers. Shared if several processes serve uploads. */
  readonly store: Store
  /**
   * Finds the owner of a request, as for `taskEndpoints`: a function, `'principal'` or `'anyone'`.
   * Only the owner sees an upload and may append to it.
   */
  readonly owner: OwnerOption<C>
  /** Path of an upload below the mount path, with `{id}`. `resource` must be mounted there. */
  readonly uploadPath: string
  /**
   * Called before an upload is created, with the head of the request. Throws to refuse it, for
   * example because of its `Content-Type`. Default: everything is accepted, and the handler refuses
   * when all bytes are here.
   */
  readonly check?: (request: HttpRequest<C>) => MaybePromise<void>
  /**
   * Maximum size of an upload in bytes; a larger one is a 413.
   *
   * @default 17_179_869_184 (16 GiB)
   */
  readonly maxBodyBytes?: number
  /** Maximum body of one request in bytes; a larger one is a 413. Default: unlimited. */
  readonly maxAppendBytes?: number
  /**
   * Minimum size of the body of one request in bytes. A smaller one is a 400, except the last one,
   * an empty first one, and one whose connection broke.
   *
   * @default 0
   */
  readonly minAppendBytes?: number
  /**
   * Size of a stored part in bytes. If a process dies, an upload loses at most so many bytes.
   *
   * @default 8_388_608 (8 MiB)
   */
  readonly partBytes?: number
  /**
   * Maximum number of parts of an upload. Each request adds at least one; more are a 413.
   *
   * @default 10_000
   */
  readonly maxParts?: number
  /**
   * Time from the creation of an upload until its last byte. After it, the upload is a 404.
   *
   * @default 86_400_000 (a day)
   */
  readonly maxAgeMs?: number
  /**
   * Maximum number of unfinished uploads of one owner; more are a 429. A client without an owner
   * counts by its principal, or by its network.
   *
   * @default 100
   */
  readonly maxPerOwner?: number
  /**
   * Maximum number of bytes of the uploads of one owner in this store that the handler has not
   * answered. An upload with a length counts with its length from the start. Bodies of bulk and
   * NDJSON tasks with the same store count too (`maxBytesPerOwner` of `taskEndpoints`). More are a
   * 429 `too_many_bytes`; a larger upload is a 413. A client without an owner counts by its
   * principal, or by its network.
   *
   * Default: a quarter of `maxBytes` of the blobs, 64 MiB in `memory()`. For blobs without
   * `maxBytes`: 64 MiB or `maxBodyBytes`, whichever is more.
   */
  readonly maxBytesPerOwner?: number
  /**
   * Time that the answer of the handler is kept for a client that has lost it.
   *
   * @default 86_400_000 (a day)
   */
  readonly retentionMs?: number
  /**
   * Time that a retry waits while the handler runs; then it is a 409.
   *
   * @default 30_000
   */
  readonly waitMs?: number
  /**
   * Maximum body of an answer that is kept, in bytes.
   *
   * @default 1_048_576 (1 MiB)
   */
  readonly maxAnswerBytes?: number
}

const KNOWN = {
  blobs: 0, store: 0, owner: 0, uploadPath: 0, check: 0, maxBodyBytes: 0, maxAppendBytes: 0,
  minAppendBytes: 0, partBytes: 0, maxParts: 0, maxAgeMs: 0, maxPerOwner: 0, maxBytesPerOwner: 0,
  retentionMs: 0, waitMs: 0, maxAnswerBytes: 0,
} satisfies Record<keyof ResumableUploadOptions, 0>

/** Options with their defaults. */
export interface Settings<C = unknown> {
  readonly blobs: Blobs
  readonly store: Store
  readonly requester: (request: HttpRequest<C>) => Requester
  readonly path: StatusPath
  readonly check: (request: HttpRequest<C>) => MaybePromise<void>
  readonly limits: Limits
  readonly partBytes: number
  readonly maxParts: number
  readonly maxPerOwner: number
  readonly maxBytesPerOwner: number
  readonly retentionMs: number
  readonly waitMs: number
  readonly maxAnswerBytes: number
}

/** The limits that clients are told. */
export interface Limits {
  readonly maxBodyBytes: number
  readonly maxAppendBytes: number
  readonly minAppendBytes: number
  readonly maxAgeMs: number
}

/** @throws {TypeError} An option is unknown, missing or out of range. */
export function toSettings<C>(options: ResumableUploadOptions<C>): Settings<C> {
  checkNames('resumableUpload', options, KNOWN)
  const {
    blobs, store, owner, uploadPath, check = () => undefined, maxBodyBytes = 2 ** 34,
    maxAppendBytes = Infinity, minAppendBytes = 0, partBytes = 2 ** 23, maxParts = 10_000,
    maxAgeMs = 86_400_000, maxPerOwner = 100, retentionMs = 86_400_000, waitMs = 30_000,
    maxAnswerBytes = 2 ** 20,
  } = options
  if (typeof blobs?.put !== 'function') {
    throw new TypeError('resumableUpload: pass blobs, such as those of memory()')
  }
  if (typeof store?.create !== 'function') {
    throw new TypeError('resumableUpload: pass a store, such as that of memory()')
  }
  if (store.shared && !blobs.shared) {
    throw new TypeError('resumableUpload: the store is shared between processes, and the blobs '
      + 'are not; pass shared blobs, such as new FolderBlobs(folder, { shared: true })')
  }
  if (typeof check !== 'function') {
    throw new TypeError('resumableUpload: check must be a function of the request')
  }
  const fromOne = { maxBodyBytes, maxAppendBytes, partBytes, maxParts, maxPerOwner }
  for (const [name, value] of Object.entries(fromOne)) atLeast(name, value, 1)
  for (const [name, value] of Object.entries({ maxAgeMs, retentionMs })) atLeast(name, value, 1000)
  for (const [name, value] of Object.entries({ minAppendBytes, waitMs, maxAnswerBytes })) {
    atLeast(name, value, 0)
  }
  if (minAppendBytes > maxAppendBytes) {
    throw new TypeError('resumableUpload: minAppendBytes must not be more than maxAppendBytes')
  }
  const maxBytesPerOwner = ownerBytesLimit(
    'resumableUpload', options.maxBytesPerOwner, blobs, maxBodyBytes,
  )
  return {
    blobs, store, check, partBytes, maxParts, maxPerOwner, maxBytesPerOwner, retentionMs, waitMs,
    maxAnswerBytes,
    requester: findRequester(owner, {
      where: 'resumableUpload', name: 'owner', question: 'Say to whom uploads belong.',
      anyone: 'lets everybody who knows the id of an upload see and cancel it.',
    }),
    path: new StatusPath(uploadPath, 'resumableUpload: uploadPath', '/uploads/{id}'),
    limits: {
      maxBodyBytes: Math.min(maxBodyBytes, maxBytesPerOwner), maxAppendBytes, minAppendBytes,
      maxAgeMs,
    },
  }
}

function atLeast(name: string, value: number, least: number): void {
  if (value >= least) return
  throw new TypeError(`resumableUpload: ${name} must be ${least} or more, not ${String(value)}`)
}

/** Returns the limits of the bytes of one owner. */
export function reserveLimits(
  { limits, maxBytesPerOwner, retentionMs }: Pick<
    Settings, 'limits' | 'maxBytesPerOwner' | 'retentionMs'
  >,
): ReserveLimits {
  return { maxBytes: maxBytesPerOwner, ttlMs: limits.maxAgeMs + retentionMs }
}

/**
 * Returns the value of `Upload-Limit` (draft section 4.1.4).
 *
 * @param ageMs - time until the upload expires
 */
export function limitField(limits: Limits, ageMs = limits.maxAgeMs): string {
  const { maxBodyBytes, maxAppendBytes, minAppendBytes } = limits
  const members = [
    isFinite(maxBodyBytes) && `max-size=${Math.floor(maxBodyBytes)}`,
    isFinite(maxAppendBytes) && `max-append-size=${Math.floor(maxAppendBytes)}`,
    minAppendBytes > 0 && `min-append-size=${Math.ceil(minAppendBytes)}`,
    `max-age=${Math.floor(ageMs / 1000)}`,
  ]
  return members.filter((member) => member !== false).join(', ')
}
