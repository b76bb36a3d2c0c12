import { createHash } from 'node:crypto'
import { decodeBytes, REQUEST_CODINGS } from '../../http/body/decode.js'
import { httpError } from '../../http/errors.js'
import { newId } from '../../runtime/random-id.js'
import type { Blobs } from '../../stores/blobs.js'
import type { TaskOptions } from './define.js'

/** Reference to a request body that is kept in blobs until its task reads it. */
export interface SpooledBody {
  /** Key of the blob. */
  readonly blob: string
  /** Content coding of the bytes. */
  readonly coding: string
  /** Number of bytes as sent. */
  readonly size: number
}

const WEEK_MS = 604_800_000

/** Writes request bodies to blobs, as they were sent, and opens them for their tasks. */
export class Spool {
  readonly #prefix: string
  readonly #blobs: Blobs
  readonly #retentionMs: number
  /** Options of `defineTask` for a task whose input is a spooled body. */
  readonly task: Required<Pick<TaskOptions<SpooledBody, unknown>, 'shared' | 'keeps'>>

  /**
   * @param caller - name of the public function, for error messages
   * @param prefix - prefix of the blob keys
   * @param retentionMs - maximum time that a body is kept; default 7 days
   * @throws {TypeError} `retentionMs` is less than a second.
   */
  constructor(caller: string, prefix: string, blobs: Blobs, retentionMs = WEEK_MS) {
    if (!blobs) throw new TypeError(`${caller}: background.blobs is required`)
    if (!(retentionMs >= 1000)) {
      throw new TypeError(`${caller}: background.blobRetentionMs must be 1000 or more`)
    }
    this.#prefix = prefix
    this.#blobs = blobs
    this.#retentionMs = retentionMs
    this.task = {
      shared: blobs.shared,
      keeps: { of: ({ blob }) => blob, release: (blob) => blobs.delete(blob) },
    }
  }

  /**
   * JSON Schema of a spooled body. The pattern of the key prevents a client that starts tasks by
   * name from reading other blobs.
   */
  get schema(): {
    readonly type: 'object', readonly required: string[],
    readonly properties: Record<string, object>
  } {
    return {
      type: 'object',
      required: ['blob', 'coding', 'size'],
      properties: {
        blob: { type: 'string', pattern: `^${this.#prefix}[A-Za-z0-9_-]{22}$` },
        coding: { enum: ['identity', ...REQUEST_CODINGS] },
        size: { type: 'integer', minimum: 0 },
      },
    }
  }

  /**
   * Writes a body to the blobs. Returns its reference and the SHA-256 of its bytes.
   *
   * @throws {HttpError} `body_too_large`: it has more than `maxBodyBytes`.
   */
  async write(
    bytes: AsyncIterable<Uint8Array>,
    options: {
      readonly coding: string, readonly maxBodyBytes: number, readonly signal: AbortSignal
    },
  ): Promise<{ readonly spooled: SpooledBody, readonly sha256: string }> {
    const { coding, maxBodyBytes, signal } = options
    const blob = this.#prefix + newId()
    const hash = createHash('sha256')
    const limited = decodeBytes(bytes, 'identity', { maxBodyBytes })
    const { size } = await this.#blobs.put(blob, hashed(limited, hash), {
      ttlMs: this.#retentionMs, signal,
    })
    return { spooled: { blob, coding, size }, sha256: hash.digest('hex') }
  }

  /**
   * Returns the bytes as sent.
   *
   * @throws {HttpError} `gone`: the blob no longer exists.
   */
  async open({ blob }: SpooledBody): Promise<AsyncIterable<Uint8Array>> {
    const bytes = await this.#blobs.open(blob)
    if (bytes !== undefined) return bytes
    throw httpError('gone', { message: 'What was sent is no longer here.' })
  }

  /** Deletes a body that no task will read. */
  discard({ blob }: SpooledBody): Promise<boolean> {
    return this.#blobs.delete(blob)
  }
}

async function* hashed(
  source: AsyncIterable<Uint8Array>, hash: { update(bytes: Uint8Array): unknown },
): AsyncGenerator<Uint8Array, void, undefined> {
  for await (const piece of source) {
    hash.update(piece)
    yield piece
  }
}
