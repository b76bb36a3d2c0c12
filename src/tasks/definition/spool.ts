import { createHash } from 'node:crypto'
import { decodeBytes, REQUEST_CODINGS } from '../../http/body/decode.js'
import { httpError } from '../../http/errors.js'
import { newId } from '../../runtime/random-id.js'
import type { Blobs } from '../../stores/blobs.js'
import type { TaskOptions } from './define.js'

/** A body that lies in blobs until its task reads it. */
export interface SpooledBody {
  /** The key of its blob. */
  readonly blob: string
  /** Its content coding. */
  readonly coding: string
  /** Bytes as sent. */
  readonly size: number
}

const WEEK_MS = 604_800_000

/** Writes bodies of requests to blobs, as they were sent, and gives them to tasks. */
export class Spool {
  readonly #prefix: string
  readonly #blobs: Blobs
  readonly #keepMs: number
  /** What a definition needs whose input is a spooled body. */
  readonly task: Required<Pick<TaskOptions<SpooledBody, unknown>, 'shared' | 'keeps'>>

  /**
   * @param name - what is built, for messages
   * @param prefix - of the keys
   * @param keepMs - how long a body is kept at the most: longer than its task may have to wait.
   * Default 7 days
   * @throws {TypeError} when that is less than a second
   */
  constructor(name: string, prefix: string, blobs: Blobs, keepMs = WEEK_MS) {
    if (!(keepMs >= 1000)) throw new TypeError(`${name}: keepMs must be 1000 or more`)
    this.#prefix = prefix
    this.#blobs = blobs
    this.#keepMs = keepMs
    this.task = { shared: blobs.shared, keeps: { of: ({ blob }) => blob, release: (blob) => blobs.delete(blob) } }
  }

  /** JSON Schema of a spooled body. Nobody who starts tasks by name can have another blob read. */
  get schema(): { readonly type: 'object', readonly required: string[], readonly properties: Record<string, object> } {
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

  /** Takes bytes in as they are. Rejects with `body_too_large`. The hash is their SHA-256. */
  async take(
    bytes: AsyncIterable<Uint8Array>,
    { coding, maxBytes, signal }: { readonly coding: string, readonly maxBytes: number, readonly signal: AbortSignal },
  ): Promise<{ readonly spooled: SpooledBody, readonly sha256: string }> {
    const blob = this.#prefix + newId()
    const hash = createHash('sha256')
    const { size } = await this.#blobs.put(blob, hashed(decodeBytes(bytes, 'identity', { maxBytes }), hash), {
      ttlMs: this.#keepMs, signal,
    })
    return { spooled: { blob, coding, size }, sha256: hash.digest('hex') }
  }

  /** The bytes as sent. Rejects with `gone` when they are no longer there. */
  async open({ blob }: SpooledBody): Promise<AsyncIterable<Uint8Array>> {
    const bytes = await this.#blobs.open(blob)
    if (bytes === undefined) throw httpError('gone', { message: 'What was sent is no longer here.' })
    return bytes
  }

  /** Takes it away, where no task will. */
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
