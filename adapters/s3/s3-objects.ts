import {
  AbortMultipartUploadCommand, CompleteMultipartUploadCommand, CreateMultipartUploadCommand, DeleteObjectsCommand,
  GetObjectCommand, ListMultipartUploadsCommand, ListObjectsV2Command, PutObjectCommand, UploadPartCommand, type S3Client,
} from '@aws-sdk/client-s3'
import { takeContent } from '../../src/stores/blob-rules.js'
import { StoreUnavailableError } from '../../src/stores/store.js'
import { S3Clock } from './s3-clock.js'

/** Size of the first thousand parts of an upload in bytes; each further thousand has parts of twice that size. */
const PART_BYTES = 8 * 1_048_576
const PARTS_OF_A_SIZE = 1000
/** Maximum number of objects that one request deletes. */
const MAX_DELETE = 1000

/** An object of the bucket. */
export interface Listed {
  /** Name behind the prefix. */
  readonly name: string
  readonly size: number
  /** Time at which it was complete, by the clock of the server, in milliseconds since 1970. */
  readonly at: number
}

/** Objects of a bucket below a prefix, and the clock of its server. */
export class S3Objects {
  readonly clock = new S3Clock()

  constructor(
    private readonly client: S3Client, private readonly bucket: string, private readonly prefix: string,
    private readonly timeoutMs: number,
  ) {}

  /** Yields the objects below a name, in the order of their names. */
  async* list(below: string): AsyncGenerator<Listed, void, undefined> {
    for (let after: string | undefined; ;) {
      const page = await this.send(new ListObjectsV2Command({
        Bucket: this.bucket, Prefix: this.prefix + below, ContinuationToken: after,
      }))
      for (const { Key = '', Size = 0, LastModified } of page.Contents ?? []) {
        yield { name: Key.slice(this.prefix.length), size: Size, at: LastModified?.getTime() ?? 0 }
      }
      after = page.NextContinuationToken
      if (page.IsTruncated !== true || after === undefined) return
    }
  }

  /** Writes an object without content. */
  async mark(name: string): Promise<void> {
    await this.put(name, new Uint8Array(0))
  }

  /** Writes an object, which is there when all of its content is. Returns its size. */
  async write(name: string, content: AsyncIterable<Uint8Array>, signal: AbortSignal | undefined): Promise<number> {
    let size = 0
    let waiting: Uint8Array[] = []
    let waitingBytes = 0
    let upload: Upload | undefined
    const take = (): Uint8Array => {
      const bytes = Buffer.concat(waiting)
      waiting = []
      waitingBytes = 0
      return bytes
    }
    try {
      await takeContent(content, signal, async (chunk) => {
        size += chunk.byteLength
        // A copy, because the source may use the chunk again.
        waiting.push(Uint8Array.from(chunk))
        waitingBytes += chunk.byteLength
        if (waitingBytes < partBytes(upload)) return
        upload ??= await this.beginUpload(name)
        await this.addPart(upload, take())
      })
      if (upload === undefined) {
        await this.put(name, take())
        return size
      }
      if (waitingBytes > 0) await this.addPart(upload, take())
      const { UploadId, parts } = upload
      await this.send(new CompleteMultipartUploadCommand({ ...this.at(name), UploadId, MultipartUpload: { Parts: parts } }))
      return size
    } catch (error) {
      if (upload) await this.abort(name, upload.UploadId)
      throw error
    }
  }

  /** Reads bytes of an object. A connection that breaks is made again. */
  async* read(name: string, start: number, end: number): AsyncGenerator<Uint8Array, void, undefined> {
    for (let [at, failures] = [start, 0]; at < end;) {
      try {
        const { Body, ContentRange } = await this.send(new GetObjectCommand({ ...this.at(name), Range: `bytes=${at}-${end - 1}` }))
        // A server may ignore the range, and send all.
        let position = ContentRange === undefined ? 0 : at
        for await (const chunk of Body as unknown as AsyncIterable<Uint8Array>) {
          const wanted = chunk.subarray(Math.max(at - position, 0), Math.max(end - position, 0))
          position += chunk.byteLength
          if (wanted.byteLength === 0) continue
          at += wanted.byteLength
          failures = 0
          yield wanted
          if (at >= end) return
        }
        if (at < end) throw new Error(`The server has sent ${at - start} of ${end - start} bytes`)
      } catch (error) {
        if (isMissing(error)) throw new StoreUnavailableError('The blob was removed before it was read', { cause: error })
        if (++failures > 3) throw failed(error)
      }
    }
  }

  async delete(names: readonly string[]): Promise<void> {
    for (let at = 0; at < names.length; at += MAX_DELETE) {
      const Objects = names.slice(at, at + MAX_DELETE).map((name) => ({ Key: this.prefix + name }))
      const { Errors: [error] = [] } = await this.send(
        new DeleteObjectsCommand({ Bucket: this.bucket, Delete: { Objects, Quiet: true } }),
      )
      if (error) throw new StoreUnavailableError(`The object storage has not deleted ${error.Key}: ${error.Message}`)
    }
  }

  /** Aborts the uploads in parts of these names that were begun before a time, by the clock of the server. */
  async abortUploadsBefore(time: number, names: RegExp): Promise<void> {
    const list = this.send(new ListMultipartUploadsCommand({ Bucket: this.bucket, Prefix: this.prefix }))
    // Some servers do not list them.
    const { Uploads = [] } = await list.catch(() => ({ Uploads: [] }))
    for (const { Key = '', UploadId = '', Initiated } of Uploads) {
      const name = Key.slice(this.prefix.length)
      if (names.test(name) && (Initiated?.getTime() ?? Infinity) < time) await this.abort(name, UploadId)
    }
  }

  private async put(name: string, Body: Uint8Array): Promise<void> {
    await this.send(new PutObjectCommand({ ...this.at(name), Body }))
  }

  private async beginUpload(name: string): Promise<Upload> {
    const { UploadId = '' } = await this.send(new CreateMultipartUploadCommand(this.at(name)))
    return { name, UploadId, parts: [] }
  }

  private async addPart({ name, UploadId, parts }: Upload, Body: Uint8Array): Promise<void> {
    const PartNumber = parts.length + 1
    const { ETag } = await this.send(new UploadPartCommand({ ...this.at(name), UploadId, PartNumber, Body }))
    parts.push({ ETag, PartNumber })
  }

  /** Never rejects: the sweep aborts it later. */
  private async abort(name: string, UploadId: string): Promise<void> {
    await this.send(new AbortMultipartUploadCommand({ ...this.at(name), UploadId })).catch(() => undefined)
  }

  private at(name: string): { readonly Bucket: string, readonly Key: string } {
    return { Bucket: this.bucket, Key: this.prefix + name }
  }

  /** Sends a command, and notes the time of the response. */
  private send: S3Client['send'] = (async (command: Parameters<S3Client['send']>[0]) => {
    command.middlewareStack.add((next) => async (args) => {
      const outcome = await next(args)
      const { headers } = outcome.response as { readonly headers?: Readonly<Record<string, string>> }
      this.clock.note(headers?.['date'])
      return outcome
    }, { step: 'deserialize', name: 'longhaulClock', priority: 'low' })
    const { Body } = command.input as { readonly Body?: Uint8Array }
    // A request with content takes as long as its content, or as the client allows.
    const isShort = Body === undefined || Body.byteLength === 0
    try {
      return await this.client.send(command, isShort ? { abortSignal: AbortSignal.timeout(this.timeoutMs) } : {})
    } catch (error) {
      if (isMissing(error)) throw error
      throw failed(error)
    }
  }) as S3Client['send']
}

/** An upload in parts that is under way. */
interface Upload {
  readonly name: string
  readonly UploadId: string
  readonly parts: { readonly ETag: string | undefined, readonly PartNumber: number }[]
}

function partBytes(upload: Upload | undefined): number {
  return PART_BYTES * 2 ** Math.floor((upload?.parts.length ?? 0) / PARTS_OF_A_SIZE)
}

function isMissing(error: unknown): boolean {
  return (error as { readonly name?: unknown } | null)?.name === 'NoSuchKey'
}

function failed(error: unknown): Error {
  if (error instanceof StoreUnavailableError || error instanceof TypeError) return error
  return new StoreUnavailableError('The object storage failed', { cause: error })
}
