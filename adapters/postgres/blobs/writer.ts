import { randomUUID } from 'node:crypto'
import { clearInterval, setInterval } from '../../../src/runtime/timers.js'
import type { BlobInfo } from '../../../src/stores/blobs.js'
import { StoreUnavailableError } from '../../../src/stores/store.js'
import type { Query } from '../connections.js'
import { toLifetime } from '../sql.js'
import type { BlobStatements } from './statements.js'

/** Size of a chunk in bytes: one row, one statement. */
const CHUNK_BYTES = 256 * 1024
/** Size of the buffer of a small blob, in bytes. */
const SMALL_BYTES = 16 * 1024
/** Interval at which a reader or writer renews its lease of 15 minutes, in milliseconds. */
export const RENEW_MS = 60_000

/** Writes one blob in chunks, of which it has two at most in memory. */
export class BlobWriter {
  /** Id of the version, and entity tag. */
  private readonly version = randomUUID()
  private buffer: Uint8Array = Buffer.allocUnsafeSlow(SMALL_BYTES)
  /** Bytes in the buffer. */
  private length = 0
  /** Bytes before the buffer. */
  private position = 0
  private appending: Promise<void> = Promise.resolve()
  private renewal: ReturnType<typeof setInterval> | undefined

  /** @param transfer - runs the statements that write chunks */
  constructor(
    private readonly query: Query, private readonly transfer: Query,
    private readonly sql: BlobStatements, private readonly key: string,
  ) {}

  /** Copies `bytes`. Waits while the database is slower than the content. */
  async write(bytes: Uint8Array): Promise<void> {
    for (let at = 0; at < bytes.byteLength;) {
      if (this.length === CHUNK_BYTES) await this.append()
      const part = bytes.subarray(at, at + CHUNK_BYTES - this.length)
      if (this.length + part.byteLength > this.buffer.byteLength) {
        const buffer = Buffer.allocUnsafeSlow(CHUNK_BYTES)
        buffer.set(this.buffer.subarray(0, this.length))
        this.buffer = buffer
      }
      this.buffer.set(part, this.length)
      this.length += part.byteLength
      at += part.byteLength
    }
  }

  /** Writes the last chunk, and makes the blob visible in place of the old one. */
  async complete(ttlMs: number): Promise<BlobInfo> {
    await this.appending
    const { key, version, position, length, sql } = this
    const size = position + length
    const rows = await this.transfer(position === 0 ? sql.completeWhole : sql.complete, [
      key, version, size, toLifetime(ttlMs), position, this.buffer.subarray(0, length),
    ])
    if (rows.length === 0) throw removed()
    clearInterval(this.renewal)
    return { size, etag: `"${version}"` }
  }

  /** Gives up, so that the next sweep deletes the chunks. */
  async discard(): Promise<void> {
    await this.appending.catch(() => undefined)
    clearInterval(this.renewal)
    if (this.position > 0) await this.query(this.sql.discard, [this.version])
  }

  /** Begins to write the chunk in the buffer once the one before was written. */
  private async append(): Promise<void> {
    await this.appending
    const { key, version, position, buffer, sql } = this
    this.buffer = Buffer.allocUnsafeSlow(CHUNK_BYTES)
    this.length = 0
    this.position += CHUNK_BYTES
    this.appending = (position === 0
      ? this.transfer(sql.appendFirst, [version, position, buffer, key])
      : this.transfer(sql.append, [version, position, buffer])
    ).then((rows) => {
      if (rows.length === 0) throw removed()
      this.renewal ??= setInterval(() => {
        this.query(sql.hold, [version]).catch(() => undefined)
      }, RENEW_MS).unref()
    })
    // The next call rejects with the same error.
    this.appending.catch(() => undefined)
  }
}

function removed(): StoreUnavailableError {
  return new StoreUnavailableError('The blob was removed while it was written, after 15 minutes without a connection')
}
