import { clearInterval, setInterval } from '../../../src/runtime/timers.js'
import type { BlobInfo } from '../../../src/stores/blobs.js'
import { StoreUnavailableError } from '../../../src/stores/store.js'
import type { BlobRow, BlobRows } from './rows.js'

/** Size of a chunk in bytes: one row, one statement. */
const CHUNK_BYTES = 256 * 1024
/** Size of the buffer of a small blob, in bytes. */
const SMALL_BYTES = 16 * 1024

/** Interval at which a writer renews its lease, in milliseconds. The lease lasts for 15 minutes. */
const RENEW_MS = 60_000

export function infoOf({ version, size }: BlobRow): BlobInfo {
  return { size, etag: `"${version}"` }
}

/**
 * Writes one blob in chunks. While one chunk is on its way to the database, the next one is
 * gathered, so a writer holds at most two. A blob of one chunk is written with one statement.
 */
export class BlobWriter {
  private readonly version: string
  private buffer: Uint8Array = Buffer.allocUnsafeSlow(SMALL_BYTES)
  /** Bytes in the buffer. */
  private length = 0
  /** Buffer of the chunk before. */
  private spare: Uint8Array | undefined
  /** Bytes of all chunks before the one in the buffer. */
  private position = 0
  private appending: Promise<void> = Promise.resolve()
  private renewal: ReturnType<typeof setInterval> | undefined

  constructor(private readonly rows: BlobRows, private readonly key: string) {
    this.version = rows.newVersion()
  }

  /** Copies `bytes`. Waits while the database is slower than the content. */
  async write(bytes: Uint8Array): Promise<void> {
    for (let at = 0; at < bytes.byteLength;) {
      if (this.length === CHUNK_BYTES) await this.append()
      const end = Math.min(bytes.byteLength, at + CHUNK_BYTES - this.length)
      this.add(bytes.subarray(at, end))
      at = end
    }
  }

  async complete(ttlMs: number): Promise<BlobInfo> {
    await this.appending
    const { key, version, position } = this
    const data = this.buffer.subarray(0, this.length)
    assertThere(await this.rows.complete({ key, version, position, data }, ttlMs))
    clearInterval(this.renewal)
    return infoOf({ version, size: position + data.byteLength })
  }

  /** Gives up. The next sweep deletes the chunks that were written. */
  async discard(): Promise<void> {
    await this.appending.catch(() => undefined)
    clearInterval(this.renewal)
    if (this.position > 0) await this.rows.discard(this.version)
  }

  private add(bytes: Uint8Array): void {
    const length = this.length + bytes.byteLength
    if (length > this.buffer.byteLength) {
      const buffer = Buffer.allocUnsafeSlow(CHUNK_BYTES)
      buffer.set(this.buffer.subarray(0, this.length))
      this.buffer = buffer
    }
    this.buffer.set(bytes, this.length)
    this.length = length
  }

  /** Begins to write the chunk in the buffer, after the one before was written. */
  private async append(): Promise<void> {
    await this.appending
    const { key, version, position, buffer: data } = this
    this.buffer = this.spare ?? Buffer.allocUnsafeSlow(CHUNK_BYTES)
    this.spare = data
    this.length = 0
    this.position += CHUNK_BYTES
    this.appending = this.rows.append({ key, version, position, data }).then((isThere) => {
      assertThere(isThere)
      this.renewal ??= setInterval(() => {
        this.rows.hold(version).catch(() => undefined)
      }, RENEW_MS).unref()
    })
    // The next chunk, or the end, rejects with the same error.
    this.appending.catch(() => undefined)
  }
}

function assertThere(isThere: boolean): void {
  if (isThere) return
  throw new StoreUnavailableError('The blob was removed while it was written, after 15 minutes without a connection')
}
