import { createHash, randomBytes } from 'node:crypto'
import type { S3Client } from '@aws-sdk/client-s3'
import { checkNames } from '../../src/runtime/option-names.js'
import { readOptions, text, timer, value, type OptionTable } from '../../src/runtime/options.js'
import {
  BLOB_PUT, BLOB_RANGE, blobRange, checkBlobKey, checkBlobLifetime,
} from '../../src/stores/blob-rules.js'
import type { BlobInfo, BlobPutOptions, BlobRange, Blobs } from '../../src/stores/blobs.js'
import { StoreUnavailableError } from '../../src/stores/store.js'
import { S3Objects, type Listed } from './s3-objects.js'

/** Options of `S3Blobs`. */
export interface S3BlobsOptions {
  /** A client of `@aws-sdk/client-s3`. Your application closes it. */
  readonly client: S3Client
  /** Bucket, which exists. */
  readonly bucket: string
  /** Start of the names of all objects. Default: `longhaul/`. */
  readonly prefix?: string
  /** Milliseconds between two sweeps for expired blobs, 1000 or more. Default: one hour. */
  readonly sweepMs?: number
  /**
   * Maximum time of a request without content, in milliseconds. Then the call rejects with a
   * `StoreUnavailableError`. Limit the others by `requestHandler` of the client. Default: 5000.
   */
  readonly timeoutMs?: number
}

const S3_BLOBS = {
  client: value('a client of @aws-sdk/client-s3', (given) => (
    typeof (given as S3Client | null)?.send === 'function'
  ), { required: true }),
  bucket: text({ required: true }), prefix: text({ pattern: /^/, default: 'longhaul/' }),
  sweepMs: timer({ min: 1000, default: 3_600_000 }), timeoutMs: timer({ default: 5000 }),
} satisfies OptionTable<S3BlobsOptions>

/** Time for which ended content stays, so that renewals and readers that began before complete. In milliseconds. */
const SLACK_MS = 600_000
/** End of the name of the mark that ends a version. */
const GONE = '.gone'
/** Names of objects, behind the prefix. */
const OWN = /^[0-9a-f]{64}\/[0-9a-f]{32}(?:\.\d+\.\d+|\.gone)?$/
/** Age from which content without a mark was left by a writer that died, in milliseconds. */
const ABANDONED_MS = 86_400_000
/** The times of objects have whole seconds. */
const SECOND_MS = 1000

/** One version of a blob: its content, and the mark that completes it. */
interface Version {
  readonly id: string
  readonly size: number
  /** Order of the versions. That of two at the same time is the order in which they were complete. */
  readonly order: number
  readonly completeAt: number
  readonly expiresAt: number
}

/**
 * Blobs in a bucket of S3, or of a server that speaks its protocol. Large ones are uploaded in parts.
 *
 * No object is ever changed, so that processes cannot disturb each other: the content of a blob has a name of its own,
 * and a mark without content completes it. A renewal and the end are further marks. The clock of the server decides, in
 * whole seconds. A sweep removes content ten minutes after its end.
 * @example
 * import { S3Client } from '@aws-sdk/client-s3'
 * import { S3Blobs } from 'longhaul/s3'
 *
 * const blobs = new S3Blobs({ client: new S3Client({ region: 'eu-central-1' }), bucket: 'my-app' })
 */
export class S3Blobs implements Blobs {
  readonly shared = true
  readonly #objects: S3Objects
  readonly #timer: ReturnType<typeof setInterval>
  #sweeping: Promise<void> | undefined
  #closed = false

  /** @throws {TypeError} An option is unknown, missing or out of range. */
  constructor(options: S3BlobsOptions) {
    const { client, bucket, prefix, sweepMs, timeoutMs } = readOptions('S3Blobs', options, S3_BLOBS)
    this.#objects = new S3Objects(client, bucket, prefix, timeoutMs)
    this.#timer = setInterval(() => void this.sweep().catch(() => undefined), sweepMs)
    this.#timer.unref()
  }

  async put(key: string, content: AsyncIterable<Uint8Array>, options: BlobPutOptions): Promise<BlobInfo> {
    this.#check(key)
    checkNames('S3Blobs: put', options, BLOB_PUT)
    const { ttlMs, signal } = options
    checkBlobLifetime(ttlMs)
    const folder = folderOf(key)
    const id = randomBytes(16).toString('hex')
    const name = folder + id
    const size = await this.#objects.write(name, content, signal)
    this.#assertOpen()
    const [newest] = await this.#versions(folder)
    if (ttlMs > 0) await this.#objects.mark(markOf(name, (newest?.order ?? 0) + 1, ttlMs))
    // Writers at the same time see each other here, and agree on the one that stays.
    const versions = await this.#versions(folder)
    await this.#bury(folder, ttlMs > 0 ? versions.slice(1) : versions)
    if (ttlMs <= 0) await this.#objects.delete([name])
    return { size, etag: `"${id}"` }
  }

  async stat(key: string): Promise<BlobInfo | undefined> {
    this.#check(key)
    const version = await this.#current(folderOf(key))
    return version && infoOf(version)
  }

  async open(key: string, range: BlobRange = {}): Promise<AsyncIterable<Uint8Array> | undefined> {
    checkNames('S3Blobs: open', range, BLOB_RANGE)
    this.#check(key)
    const version = await this.#current(folderOf(key))
    if (version === undefined || (range.etag !== undefined && range.etag !== infoOf(version).etag)) return undefined
    const { start, end } = blobRange(range, version.size)
    return this.#objects.read(folderOf(key) + version.id, start, end)
  }

  async renew(key: string, ttlMs: number): Promise<BlobInfo | undefined> {
    this.#check(key)
    checkBlobLifetime(ttlMs)
    const folder = folderOf(key)
    const version = await this.#current(folder)
    if (version === undefined) return undefined
    const { id, order, expiresAt } = version
    if (expiresAt - SECOND_MS >= this.#objects.clock.now() + ttlMs) return infoOf(version)
    // Earlier marks stay: another renewal may count on one of them.
    await this.#objects.mark(markOf(folder + id, order, ttlMs))
    // It may have been deleted or replaced meanwhile.
    const now = await this.#current(folder)
    return now && infoOf(now)
  }

  async delete(key: string): Promise<boolean> {
    this.#check(key)
    const versions = await this.#versions(folderOf(key))
    await this.#bury(folderOf(key), versions)
    return versions[0] !== undefined && versions[0].expiresAt > this.#objects.clock.now()
  }

  /** Removes what has expired, and what writers that died have left. Also runs every `sweepMs`. */
  async sweep(): Promise<void> {
    this.#assertOpen()
    this.#sweeping ??= this.#sweepAll().finally(() => { this.#sweeping = undefined })
    await this.#sweeping
  }

  /** Stops sweeping. Objects stay. */
  async close(): Promise<void> {
    this.#closed = true
    clearInterval(this.#timer)
    await this.#sweeping?.catch(() => undefined)
  }

  async #sweepAll(): Promise<void> {
    let folder = ''
    let objects: Listed[] = []
    for await (const object of this.#objects.list('')) {
      if (this.#closed) return
      // The bucket may have other objects below the prefix.
      if (!OWN.test(object.name)) continue
      if (!object.name.startsWith(folder) || folder === '') {
        await this.#sweepFolder(folder, objects)
        folder = object.name.slice(0, object.name.indexOf('/') + 1)
        objects = []
      }
      objects.push(object)
    }
    await this.#sweepFolder(folder, objects)
    await this.#objects.abortUploadsBefore(this.#objects.clock.now() - ABANDONED_MS, OWN)
  }

  /** Sweeps the objects of one key. */
  async #sweepFolder(folder: string, objects: readonly Listed[]): Promise<void> {
    const now = this.#objects.clock.now()
    const [newest, ...replaced] = versionsOf(objects)
    // Replaced by a writer that died before it could say so.
    await this.#bury(folder, replaced)
    const contents = objects.filter(isContent)
    const ids = new Set(contents.map(({ name }) => idOf(name)))
    const isOver = (content: Listed): boolean => {
      const marks = marksOf(content, objects)
      const end = marks.find(({ name }) => name.endsWith(GONE))
      if (end) return end.at < now - SLACK_MS
      if (newest?.id === idOf(content.name)) return newest.expiresAt < now - SLACK_MS
      return marks.length === 0 && content.at < now - ABANDONED_MS
    }
    const over = contents.filter(isOver)
    const overIds = new Set(over.map(({ name }) => idOf(name)))
    // A mark without its content was written by a renewal during a deletion.
    const marks = objects.filter((object) => !isContent(object)).filter(({ name, at }) => (
      overIds.has(idOf(name)) || !ids.has(idOf(name)) && at < now - ABANDONED_MS
    ))
    // Content first: without its marks it could not be told from what is being written.
    await this.#objects.delete(over.map(({ name }) => name))
    await this.#objects.delete(marks.map(({ name }) => name))
  }

  /** Ends versions. Their content stays for those that read it, until a sweep. */
  async #bury(folder: string, versions: readonly Version[]): Promise<void> {
    await Promise.all(versions.map(({ id }) => this.#objects.mark(`${folder}${id}${GONE}`)))
  }

  /** Returns the blob at a key, unless it has expired. */
  async #current(folder: string): Promise<Version | undefined> {
    const [newest] = await this.#versions(folder)
    return newest && newest.expiresAt > this.#objects.clock.now() ? newest : undefined
  }

  /** Returns the complete versions at a key, the newest first. */
  async #versions(folder: string): Promise<Version[]> {
    const objects: Listed[] = []
    for await (const object of this.#objects.list(folder)) objects.push(object)
    return versionsOf(objects)
  }

  #check(key: string): void {
    this.#assertOpen()
    checkBlobKey(key)
  }

  #assertOpen(): void {
    if (this.#closed) throw new StoreUnavailableError('The blobs are closed')
  }
}

/** Returns where the objects of a key are. Keys may have characters that S3 does not allow. */
function folderOf(key: string): string {
  return `${createHash('sha256').update(key).digest('hex')}/`
}

/** Returns the id of a version: `folder/id` is its content, `folder/id.order.ttlMs` a mark. */
function idOf(name: string): string {
  return /\/([^.]*)/.exec(name)?.[1] ?? ''
}

/** Returns the name of a mark that lets a version live. */
function markOf(name: string, order: number, ttlMs: number): string {
  return `${name}.${order}.${Math.ceil(ttlMs)}`
}

function isContent({ name }: Listed): boolean {
  return !name.includes('.')
}

function marksOf({ name }: Listed, objects: readonly Listed[]): Listed[] {
  return objects.filter((object) => object.name.startsWith(`${name}.`))
}

function versionsOf(objects: readonly Listed[]): Version[] {
  const versions: Version[] = []
  for (const content of objects.filter(isContent)) {
    const id = idOf(content.name)
    const marks = marksOf(content, objects)
    if (marks.length === 0 || marks.some((mark) => mark.name.endsWith(GONE))) continue
    const completeAt = Math.min(...marks.map((mark) => mark.at))
    const [, order] = (marks[0] as Listed).name.split('.')
    const expiresAt = Math.max(...marks.map((mark) => mark.at + SECOND_MS + Number(mark.name.split('.')[2])))
    versions.push({ id, size: content.size, order: Number(order), completeAt, expiresAt })
  }
  return versions.sort((one, other) => (
    other.order - one.order || other.completeAt - one.completeAt || (other.id < one.id ? -1 : 1)
  ))
}

function infoOf({ id, size }: Version): BlobInfo {
  return { size, etag: `"${id}"` }
}
