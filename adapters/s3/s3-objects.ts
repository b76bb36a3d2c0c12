import {
  AbortMultipartUploadCommand, CompleteMultipartUploadCommand, CreateMultipartUploadCommand, DeleteObjectCommand,
  GetObjectCommand, ListMultipartUploadsCommand, ListObjectsV2Command, PutObjectCommand, UploadPartCommand,
  type CompletedPart, type ListMultipartUploadsCommandOutput, type S3Client,
} from '@aws-sdk/client-s3'
import { Gathered } from '../../src/runtime/text.js'
import { clearTimeout, setTimeout, unlessAborted } from '../../src/runtime/timers.js'
import { takeContent } from '../../src/stores/blob-rules.js'
import type { LinkHeaders } from '../../src/stores/blobs.js'
import { StoreUnavailableError } from '../../src/stores/store.js'
import { S3Clock } from './s3-clock.js'

/** Maximum number of parts of an upload. All but the last have one size, which R2 and others require. */
const MAX_PARTS = 10_000
/** Maximum number of bytes that one request reads. A reader has that many in memory. */
const READ_BYTES = 1_048_576
/** Maximum number of requests in a row that bring a reader no byte. */
const MAX_FAILURES = 4
/** Rate at which a server must take content, in bytes for each millisecond: 64 kB in a second. */
const MIN_RATE = 64
/** Maximum time in which the server joins the parts of an upload, in milliseconds. S3 may take minutes. */
const COMPLETE_MS = 600_000
/** Lifetime of a signed URL. Content stays for longer after its end. */
const SIGNED_SECONDS = 300
const NOT_IMPLEMENTED = 501

/** Signs a request, as `getSignedUrl` of `@aws-sdk/s3-request-presigner` does. */
export type GetSignedUrl = (
  client: S3Client, command: GetObjectCommand, options: { readonly expiresIn: number, readonly signingDate: Date },
) => Promise<string>

/** An object of the bucket. */
export interface Listed {
  /** Name behind the prefix. */
  readonly name: string
  readonly size: number
  readonly etag: string
  /** Time at which it was complete, by the clock of the server, in milliseconds since 1970. */
  readonly at: number
}

/** An upload in parts that has not ended. */
export interface Upload {
  /** Name of the object behind the prefix. */
  readonly name: string
  readonly id: string
}

type Send = S3Client['send']
type Command = Parameters<Send>[0]
/** `requestTimeout`: maximum time of the call in milliseconds. */
type SendLimits = Parameters<Send>[1] & { readonly abortSignal?: AbortSignal | undefined }

interface ObjectsOptions {
  readonly client: S3Client
  readonly bucket: string
  readonly prefix: string
  readonly timeoutMs: number
  readonly partBytes: number
}

/** Objects of a bucket below a prefix, and the clock of its server. */
export class S3Objects {
  readonly clock = new S3Clock()

  private readonly client: S3Client
  private readonly bucket: string
  private readonly prefix: string
  private readonly timeoutMs: number
  private readonly partBytes: number

  constructor({ client, bucket, prefix, timeoutMs, partBytes }: ObjectsOptions) {
    this.client = client
    this.bucket = bucket
    this.prefix = prefix
    this.timeoutMs = timeoutMs
    this.partBytes = partBytes
  }

  /** Yields the objects below a name, in the order of their names. */
  async* list(below: string): AsyncGenerator<Listed, void, undefined> {
    for (let after: string | undefined; ;) {
      const page = await this.send(new ListObjectsV2Command({
        Bucket: this.bucket, Prefix: this.prefix + below, ContinuationToken: after,
      }))
      for (const { Key = '', Size = 0, ETag = '', LastModified } of page.Contents ?? []) {
        yield { name: Key.slice(this.prefix.length), size: Size, etag: ETag, at: LastModified?.getTime() ?? 0 }
      }
      after = page.NextContinuationToken
      if (page.IsTruncated !== true || after === undefined) return
    }
  }

  /** Writes an object without content. */
  async mark(name: string): Promise<void> {
    await this.put(name, new Uint8Array(0))
  }

  /** Writes an object, which is there when all of its content is. Returns its size and entity tag. */
  async write(
    name: string, content: AsyncIterable<Uint8Array>, signal: AbortSignal | undefined,
  ): Promise<Pick<Listed, 'size' | 'etag'>> {
    let size = 0
    let part = new Gathered()
    let upload: PartsUpload | undefined
    let isSent = false
    try {
      await takeContent(content, signal, async (chunk) => {
        size += chunk.byteLength
        for (let at = 0; at < chunk.byteLength;) {
          const free = this.partBytes - part.size
          const piece = chunk.subarray(at, at + free)
          part.add(piece)
          at += piece.byteLength
          if (piece.byteLength < free) return
          upload ??= await this.beginUpload(name, signal)
          await this.addPart(upload, part.bytes, signal)
          part = new Gathered()
        }
      })
      if (upload && part.size > 0) await this.addPart(upload, part.bytes, signal)
      isSent = true
      const etag = await (upload ? this.completeUpload(upload, signal) : this.put(name, part.bytes, signal))
      signal?.throwIfAborted()
      return { size, etag }
    } catch (error) {
      // Not awaited, because a signal stops a write at once. What this does not remove, a sweep does.
      if (upload) this.abort(upload).catch(() => undefined)
      if (isSent) this.delete(name).catch(() => undefined)
      throw signal?.aborted === true ? signal.reason : error
    }
  }

  /**
   * Reads bytes of an object. Each request reads a piece, so that no connection is in use while the reader is slow.
   * If a request fails, the next one continues where it stopped.
   */
  async* read(name: string, start: number, end: number): AsyncGenerator<Uint8Array, void, undefined> {
    for (let [at, failures] = [start, 0]; at < end;) {
      const chunks: Uint8Array[] = []
      try {
        await this.readPiece(name, at, Math.min(end, at + READ_BYTES), chunks)
      } catch (error) {
        if (isMissing(error)) throw new StoreUnavailableError('The blob was removed before it was read', { cause: error })
        failures = chunks.length > 0 ? 0 : failures + 1
        if (failures === MAX_FAILURES) throw failed(error)
      }
      for (const chunk of chunks) {
        at += chunk.byteLength
        yield chunk
      }
    }
  }

  /** Returns a URL at which anybody can read an object for five minutes, by the clock of the server. */
  async sign(
    name: string, getSignedUrl: GetSignedUrl, { type, disposition, cacheControl }: LinkHeaders,
  ): Promise<string> {
    const command = new GetObjectCommand({
      ...this.at(name), ResponseContentType: type, ResponseContentDisposition: disposition, ResponseCacheControl: cacheControl,
    })
    const options = { expiresIn: SIGNED_SECONDS, signingDate: new Date(this.clock.now()) }
    try {
      return await limited(this.timeoutMs, undefined, () => getSignedUrl(this.client, command, options))
    } catch (error) {
      throw failed(error)
    }
  }

  /** Deletes an object, if it is there. */
  async delete(name: string): Promise<void> {
    try {
      await this.send(new DeleteObjectCommand(this.at(name)))
    } catch (error) {
      if (!isMissing(error)) throw error
    }
  }

  /** Yields the uploads in parts that were begun before a time, by the clock of the server. */
  async* uploadsBefore(time: number): AsyncGenerator<Upload, void, undefined> {
    for (let [key, id]: (string | undefined)[] = []; ;) {
      const { Uploads = [], IsTruncated, NextKeyMarker, NextUploadIdMarker } = await this.uploadsPage(key, id)
      for (const { Key = '', UploadId = '', Initiated } of Uploads) {
        if ((Initiated?.getTime() ?? Infinity) < time) yield { name: Key.slice(this.prefix.length), id: UploadId }
      }
      if (IsTruncated !== true || NextKeyMarker === undefined) return
      key = NextKeyMarker
      id = NextUploadIdMarker
    }
  }

  private async uploadsPage(
    KeyMarker: string | undefined, UploadIdMarker: string | undefined,
  ): Promise<Partial<ListMultipartUploadsCommandOutput>> {
    try {
      return await this.send(new ListMultipartUploadsCommand({
        Bucket: this.bucket, Prefix: this.prefix, KeyMarker, UploadIdMarker,
      }))
    } catch (error) {
      // Some servers do not list them.
      if (statusOf((error as Error).cause) === NOT_IMPLEMENTED) return {}
      throw error
    }
  }

  /** Aborts an upload in parts. */
  async abort({ name, id }: Upload): Promise<void> {
    await this.send(new AbortMultipartUploadCommand({ ...this.at(name), UploadId: id }))
  }

  private async put(name: string, Body: Uint8Array, abortSignal?: AbortSignal): Promise<string> {
    const { ETag = '' } = await this.send(new PutObjectCommand({ ...this.at(name), Body }), this.limitsOf(Body, abortSignal))
    return ETag
  }

  private async beginUpload(name: string, abortSignal: AbortSignal | undefined): Promise<PartsUpload> {
    // The client adds this checksum to each part by default. Then S3 requires it here, and at the end.
    // Clients before 3.729 have no such option, and add none.
    const { requestChecksumCalculation }: Partial<S3Client['config']> = this.client.config
    const hasChecksums = await requestChecksumCalculation?.() === 'WHEN_SUPPORTED'
    const command = new CreateMultipartUploadCommand({ ...this.at(name), ...(hasChecksums && { ChecksumAlgorithm: 'CRC32' }) })
    const { UploadId = '' } = await this.send(command, { abortSignal } as SendLimits)
    return { name, id: UploadId, parts: [] }
  }

  private async addPart({ name, id, parts }: PartsUpload, Body: Uint8Array, signal: AbortSignal | undefined): Promise<void> {
    const PartNumber = parts.length + 1
    if (PartNumber > MAX_PARTS) {
      throw new StoreUnavailableError(`S3Blobs: a blob is larger than ${MAX_PARTS} parts of ${this.partBytes} bytes; `
        + 'pass a larger partBytes', { reason: 'full' })
    }
    const command = new UploadPartCommand({ ...this.at(name), UploadId: id, PartNumber, Body })
    const { ETag, ChecksumCRC32 } = await this.send(command, this.limitsOf(Body, signal))
    parts.push({ ETag, ChecksumCRC32, PartNumber })
  }

  private async completeUpload({ name, id, parts }: PartsUpload, abortSignal: AbortSignal | undefined): Promise<string> {
    const { ETag = '' } = await this.send(
      new CompleteMultipartUploadCommand({ ...this.at(name), UploadId: id, MultipartUpload: { Parts: parts } }),
      { abortSignal, requestTimeout: COMPLETE_MS } as SendLimits,
    )
    return ETag
  }

  private limitsOf({ byteLength }: Uint8Array, abortSignal: AbortSignal | undefined): SendLimits {
    return { abortSignal, requestTimeout: this.timeoutMs + byteLength / MIN_RATE } as SendLimits
  }

  /** Adds the bytes from `start` to `end` to `chunks`. The time limit applies to the response, and to each chunk. */
  private async readPiece(name: string, start: number, end: number, chunks: Uint8Array[]): Promise<void> {
    const command = new GetObjectCommand({ ...this.at(name), Range: `bytes=${start}-${end - 1}` })
    await limited(this.timeoutMs, undefined, async (signal, extend) => {
      const { Body, ContentRange } = await this.request(command, { abortSignal: signal })
      // A server may ignore the range, and send all.
      let position = ContentRange === undefined ? 0 : start
      for await (const chunk of Body as unknown as AsyncIterable<Uint8Array>) {
        extend()
        const wanted = chunk.subarray(Math.max(start - position, 0), Math.max(end - position, 0))
        position += chunk.byteLength
        if (wanted.byteLength > 0) chunks.push(wanted)
        // At the end of the range the body ends, too, and leaves its connection to the next request.
        if (position > end) return
      }
      if (position < end) throw new Error(`The server has sent ${position - start} of ${end - start} bytes`)
    })
  }

  private at(name: string): { readonly Bucket: string, readonly Key: string } {
    return { Bucket: this.bucket, Key: this.prefix + name }
  }

  /** Sends a command, within `timeoutMs` or another limit. */
  private send: Send = (async (command: Command, { abortSignal, requestTimeout = this.timeoutMs }: SendLimits = {}) => {
    try {
      return await limited(requestTimeout, abortSignal, (signal) => this.request(command, { abortSignal: signal }))
    } catch (error) {
      if (isMissing(error)) throw error
      throw failed(error)
    }
  }) as Send

  /** Sends a command, and notes the time of the response. */
  private request: Send = (async (command: Command, options: SendLimits) => {
    command.middlewareStack.add((next) => async (args) => {
      const outcome = await next(args)
      const { headers } = outcome.response as { readonly headers?: Readonly<Record<string, string>> }
      this.clock.note(headers?.['date'])
      return outcome
    }, { step: 'deserialize', name: 'longhaulClock', priority: 'low' })
    return this.client.send(command, options)
  }) as Send
}

/** An upload in parts that is under way. */
interface PartsUpload extends Upload {
  readonly parts: CompletedPart[]
}

/**
 * Runs a request. Aborts it and rejects after `limitMs` milliseconds, or when `signal` aborts. `extend` starts the time
 * again. Rejects at once, because credentials and other parts of a client need not know about signals.
 */
async function limited<T>(
  limitMs: number, signal: AbortSignal | undefined, run: (signal: AbortSignal, extend: () => void) => Promise<T>,
): Promise<T> {
  const stop = new AbortController()
  const timer = setTimeout(() => { stop.abort(new Error(`No response within ${Math.ceil(limitMs)} ms`)) }, limitMs).unref()
  const abort = (): void => { stop.abort(signal?.reason) }
  signal?.addEventListener('abort', abort, { once: true })
  if (signal?.aborted === true) abort()
  try {
    return await unlessAborted(run(stop.signal, () => { timer.refresh() }), stop.signal)
  } finally {
    clearTimeout(timer)
    signal?.removeEventListener('abort', abort)
  }
}

function isMissing(error: unknown): boolean {
  return (error as { readonly name?: unknown } | null)?.name === 'NoSuchKey'
}

function statusOf(error: unknown): number | undefined {
  return (error as { readonly $metadata?: { readonly httpStatusCode?: number } } | undefined)?.$metadata?.httpStatusCode
}

function failed(error: unknown): Error {
  if (error instanceof StoreUnavailableError || error instanceof TypeError) return error
  return new StoreUnavailableError(`The object storage failed: ${String(error)}`, { cause: error })
}
