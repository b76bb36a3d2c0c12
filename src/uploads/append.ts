import { readContentLength } from '../http/headers/digests.js'
import type { BodySource, HttpRequest } from '../http/exchange.js'
import { addFailureHeaders, readFailure } from '../http/failure.js'
import { httpError } from '../http/errors.js'
import type { OwnerBytes } from '../tasks/record/owner-bytes.js'
import { reserveLimits, type Settings } from './options.js'
import { announce, inconsistentLength, superseded, tooLarge, uploadHeaders } from './protocol.js'
import {
  bytesOf, uploadPartKey, stateKey, type UploadPart, type UploadRecords, type UploadWriter,
} from './upload-state.js'

export interface UploadStores<C> {
  readonly settings: Settings<C>
  readonly records: UploadRecords
  readonly owners: OwnerBytes
}

/** Properties of the request, except its body. */
interface AppendOptions {
  /** `true` if the upload ends with this body. */
  readonly complete: boolean
  /** Bytes that are reserved for the upload; `undefined` if its owner has no limit. */
  readonly reserved: number | undefined
}

export async function appendBody<C>(
  stores: UploadStores<C>, request: HttpRequest<C>, writer: UploadWriter, options: AppendOptions,
): Promise<void> {
  const append = new Append(stores, request, writer, options)
  let unwatch = (): void => undefined
  try {
    unwatch = await writer.watch(request.body, () => { append.body.stop() })
    await append.storeParts()
    await append.conclude()
  } catch (error) {
    await append.cleanUp(readFailure(error).code)
    throw error
  } finally {
    unwatch()
    append.body.close()
    await append.returnRest()
  }
}

class Append<C> {
  readonly body: BodyParts
  /** Number of bytes that the upload may still get. */
  private readonly left: number
  /** Parts in the blobs that are not in the state yet. */
  private parts: UploadPart[] = []
  private isFull = false
  /** True if the body has a digest: its bytes count only once all of them have arrived. */
  private readonly isDeferred: boolean
  private readonly complete: boolean
  private reserved: number | undefined

  constructor(
    private readonly stores: UploadStores<C>, private readonly request: HttpRequest<C>,
    private readonly writer: UploadWriter, { complete, reserved }: AppendOptions,
  ) {
    this.complete = complete
    this.reserved = reserved
    const { limits } = stores.settings
    this.left = (writer.state.length ?? limits.maxBodyBytes) - writer.state.offset
    this.isDeferred = request.headers['content-digest'] !== undefined
    this.body = new BodyParts(request.body, Math.min(this.left, limits.maxAppendBytes))
  }

  /**
   * Writes the body to blobs, one part after the other. Once a part is stored, adds it to the
   * state.
   */
  async storeParts(): Promise<void> {
    const { body, writer } = this
    const { blobs, limits, maxParts, retentionMs } = this.stores.settings
    while (await body.hasMore()) {
      if (writer.state.parts.length + this.parts.length >= maxParts) {
        this.isFull = true
        return
      }
      const size = await this.nextSize()
      const name = writer.newPart()
      const part = await blobs.put(uploadPartKey(writer.id, name), body.part(size), {
        ttlMs: limits.maxAgeMs + retentionMs,
      })
      this.parts.push([name, part.size])
      if (this.isDeferred || body.ended !== undefined) continue
      await writer.add(this.parts)
      this.parts = []
      this.announceOffset()
    }
  }

  /** Decides at the end of a body which of its bytes are kept, and ends the right to append. */
  async conclude(): Promise<void> {
    const { body, writer, complete, isFull, left } = this
    const { records, settings: { limits } } = this.stores
    const { owner, length, offset } = writer.state
    const total = offset + bytesOf(this.parts)
    const error = body.ended?.error
    const isWhole = error === undefined && !body.cut && !body.exceeded && !isFull
    const isFirstEmpty = offset === 0 && body.bytes === 0
    const isSmall = isWhole && !complete && !isFirstEmpty && body.bytes < limits.minAppendBytes
    const isWrong = error !== undefined && readFailure(error).code === 'digest_mismatch'
    // An upload must not be received with bytes whose digest was not compared.
    const isUnchecked = complete && total === length && !isWhole && this.isDeferred
    if (isWrong || isSmall || isUnchecked) await this.deleteParts()
    if (isWrong || isSmall) {
      await writer.release([])
      throw this.atOffset(isSmall ? httpError('upload_append_too_small') : error)
    }
    if (body.exceeded && left <= limits.maxAppendBytes) {
      // Draft section 4.4.2: the upload is invalid from now on.
      await records.remove(writer.id, owner ?? undefined)
      await this.deleteParts()
      throw tooLarge(limits, 'The upload is longer than announced, or than the server accepts.')
    }
    // Before the release, which changes the state as a newer request would.
    const isSuperseded = body.cut || (error !== undefined && writer.isAsked)
    await writer.release(this.parts, isWhole && complete && length === null ? total : undefined)
    this.parts = []
    // Even if the connection broke after the last byte, or a newer request ended this one.
    if (writer.state.received) return
    if (isWhole && complete) throw inconsistentLength(writer.state.offset)
    if (isSuperseded) throw superseded(writer.state.offset)
    if (isFull) {
      throw this.atOffset(tooLarge(limits, 'The upload has too many parts; send larger ones.'))
    }
    if (body.exceeded) {
      const message = `The body is larger than ${limits.maxAppendBytes} bytes.`
      throw this.atOffset(tooLarge(limits, message))
    }
    if (error !== undefined) throw this.atOffset(error)
    this.announceOffset()
  }

  /** Cleans up after a failure, as far as the store and the blobs allow. */
  async cleanUp(code: string): Promise<void> {
    const { writer } = this
    const isOver = code === 'upload_superseded' || code === 'upload_not_found'
    // If the writer has lost the upload, these parts are in no state, and no later write can land.
    if (isOver || code === 'too_many_bytes') await this.deleteParts()
    // What the store may still hold is fenced when the next request comes.
    if (!isOver && writer.isWriting) await writer.release([]).catch(() => undefined)
  }

  /** Releases the reserved bytes that are not used, if the client may append more later. */
  async returnRest(): Promise<void> {
    const { reserved, writer, stores: { owners } } = this
    const { countedAs: caller, length, offset } = writer.state
    if (reserved === undefined || length !== null || reserved <= offset) return
    await owners.reduce(caller, stateKey(writer.id), reserved, offset)
  }

  /**
   * Reserves the next part of a body of unknown length for its owner. Returns the size that it may
   * have.
   */
  private async nextSize(): Promise<number> {
    const { writer, request } = this
    const { settings, owners } = this.stores
    const { countedAs: caller, length, offset } = writer.state
    const size = Math.max(settings.partBytes, settings.minAppendBytes)
    if ((length ?? readContentLength(request.headers)) !== undefined) return size
    const used = offset + bytesOf(this.parts)
    try {
      this.reserved = await owners.reserve(
        caller, stateKey(writer.id), Math.min(used + size, settings.limits.maxBodyBytes),
        { ...reserveLimits(settings), least: used + 1 },
      )
    } catch (error) {
      throw this.atOffset(error)
    }
    return this.reserved - used
  }

  private async deleteParts(): Promise<void> {
    const { parts } = this
    this.parts = []
    await this.stores.records.deleteParts(this.writer.id, parts)
  }

  private announceOffset(): void {
    announce(this.request, { 'upload-offset': String(this.writer.state.offset) })
  }

  private atOffset(error: unknown): unknown {
    addFailureHeaders(error, uploadHeaders(this.writer.state.offset))
    return error
  }
}

/**
 * The body of a request as a sequence of parts. If the body fails, keeps the error instead of
 * throwing it.
 */
class BodyParts {
  #source: AsyncIterator<Uint8Array> | undefined
  #waiting: Uint8Array | undefined
  #stopped = false
  bytes = 0
  /** True if the body has more than `most` bytes. Bytes beyond this number are not read. */
  exceeded = false
  /** True if `stop` ended the body. */
  cut = false
  /** Set when the body has ended: with an error if the connection broke or a digest is wrong. */
  ended: { readonly error?: unknown } | undefined

  constructor(private readonly body: BodySource, private readonly most: number) {}

  /** Ends the body before the next chunk. */
  stop(): void {
    this.#stopped = true
  }

  /** Waits for the next chunk. Resolves to `false` at the end. */
  async hasMore(): Promise<boolean> {
    this.#waiting ??= await this.#next()
    return this.#waiting !== undefined
  }

  /** Yields chunks until they have `size` bytes or more, or the body ends. */
  async* part(size: number): AsyncGenerator<Uint8Array, void, undefined> {
    for (let taken = 0; taken < size && await this.hasMore();) {
      const chunk = this.#waiting as Uint8Array
      this.#waiting = undefined
      taken += chunk.byteLength
      this.bytes += chunk.byteLength
      yield chunk
    }
  }

  close(): void {
    this.ended ??= {}
    // Not awaited, because a generator that waits for the client ends only when the client sends.
    this.#source?.return?.().then(undefined, () => undefined)
  }

  async #next(): Promise<Uint8Array | undefined> {
    while (this.ended === undefined) {
      if (this.#stopped) {
        this.cut = true
        this.close()
        break
      }
      try {
        this.#source ??= this.body.stream()[Symbol.asyncIterator]()
        const step = await this.#source.next()
        if (step.done === true) this.ended = {}
        else if (step.value.byteLength > 0) return this.#within(step.value)
      } catch (error) {
        this.ended = { error }
      }
    }
    return undefined
  }

  /** Returns the part of a chunk that is within the maximum; `undefined` if none is. */
  #within(chunk: Uint8Array): Uint8Array | undefined {
    const left = this.most - this.bytes
    if (chunk.byteLength <= left) return chunk
    this.exceeded = true
    this.close()
    return left > 0 ? chunk.subarray(0, left) : undefined
  }
}
