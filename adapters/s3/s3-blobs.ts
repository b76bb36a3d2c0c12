import { createHash, randomBytes } from 'node:crypto'
import type { S3Client } from '@aws-sdk/client-s3'
import { checkNames } from '../../src/runtime/option-names.js'
import { func, hasMethod, LONGEST_MS, readOptions, text, timer, value, whole, type OptionTable } from '../../src/runtime/options.js'
import {
  BLOB_LINK, BLOB_PUT, BLOB_RANGE, blobRange, changeEach, checkBlobKey, checkBlobLifetime,
} from '../../src/stores/blob-rules.js'
import type { BlobInfo, BlobPutOptions, BlobRange, Blobs } from '../../src/stores/blobs.js'
import { StoreUnavailableError } from '../../src/stores/store.js'
import { S3Objects, type GetSignedUrl, type Listed } from './s3-objects.js'

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
   * Maximum time for a response, and between two chunks of it, in milliseconds. Default: 5000.
   *
   * A request that writes content has one second more for each 64 kB. After that, the call rejects
   * with a `StoreUnavailableError`.
   */
  readonly timeoutMs?: number
  /**
   * Size of the parts of an upload in bytes: at least 5_242_880 (5 MiB), at most 5_368_709_120.
   * Default: 8_388_608 (8 MiB), for blobs of up to 78 GiB.
   *
   * A write has one part in memory. A blob has at most 10,000 parts; a `put` of a larger one
   * rejects with a `StoreUnavailableError` with the reason `full`.
   */
  readonly partBytes?: number
  /**
   * `getSignedUrl` of `@aws-sdk/s3-request-presigner`, to redirect downloads to signed URLs of the
   * bucket. Default: longhaul sends the bytes.
   *
   * The status is 307, and a URL works for five minutes. Your own function may sign for another
   * address, or for up to 15 minutes. Pass it in all processes, because it changes entity tags.
   */
  readonly getSignedUrl?: GetSignedUrl
}

const S3_BLOBS = {
  client: value('a client of @aws-sdk/client-s3', hasMethod('send'), { required: true }),
  bucket: text({ required: true }), prefix: text({ pattern: /^/, default: 'longhaul/' }),
  sweepMs: timer({ min: 1000, default: 3_600_000 }), timeoutMs: timer({ default: 5000 }),
  partBytes: whole({ min: 5 * 2 ** 20, max: 5 * 2 ** 30, default: 2 ** 23 }),
  getSignedUrl: func(),
} satisfies OptionTable<S3BlobsOptions>

/** Time for which ended content stays, so that renewals and readers that began before complete. In milliseconds. */
const SLACK_MS = 900_000
/** Time after which a reader marks its content again, in milliseconds. It may wait ten minutes between two chunks. */
const HOLD_MS = 240_000
/** End of the name of a mark that ends a version. */
const GONE = '.gone'
/** End of the name of the mark of readers of a version. */
const HOLD = '.hold'
/** Names of objects, behind the prefix. */
const OWN = /^[0-9a-f]{64}\/[0-9a-f]{32}(?:\.\d+\.(?:\d+|gone)|\.hold)?$/
/** Age from which content without a mark was left by a writer that died, in milliseconds. */
const ABANDONED_MS = 86_400_000
/** The times of objects have whole seconds. */
const SECOND_MS = 1000

/** Runs a step of a sweep. Notes its failure. */
type Attempt = (step: Promise<unknown>) => Promise<void>

/** One version of a blob: its content, and the mark that completes it. */
interface Version {
  readonly id: string
  readonly size: number
  readonly etag: string
  /**
   * Order of the versions. If two versions have the same order, the version with the lower id is
   * newer.
   */
  readonly order: number
  readonly expiresAt: number
}

/**
 * Blobs in a bucket of S3, or of a server that speaks its protocol. Large ones are uploaded in parts.
 *
 * Content is never overwritten, so that processes cannot disturb each other. It has a name of its own, and a mark, an
 * empty object, completes it. A renewal and the end are further marks. The clock of the server decides, in whole
 * seconds. A sweep removes content 15 minutes after its end, and later if somebody still reads it. A put may take up to
 * a day.
 *
 * A put writes its mark after its content. The put wins over all puts that had resolved before. If
 * marks of several puts are written at the same time, any of these puts may win, and all processes
 * see the same one.
 *
 * Every failure of the server is a `StoreUnavailableError` that names the error of the server, even
 * for a bucket that does not exist or a permission that is missing.
 * @example
 * import { S3Client } from '@aws-sdk/client-s3'
 * import { S3Blobs } from 'longhaul/s3'
 *
 * const blobs = new S3Blobs({ client: new S3Client({ region: 'eu-central-1' }), bucket: 'my-app' })
 */
export class S3Blobs implements Blobs {
  readonly shared = true
  /** Present with the option `getSignedUrl`. */
  readonly link?: NonNullable<Blobs['link']>
  readonly #objects: S3Objects
  readonly #timer: ReturnType<typeof setInterval>
  #sweeping: Promise<void> | undefined
  #closed = false

  /** @throws {TypeError} An option is unknown, missing or out of range. */
  constructor(options: S3BlobsOptions) {
    const { sweepMs, getSignedUrl, ...rest } = readOptions('S3Blobs', options, S3_BLOBS)
    this.#objects = new S3Objects(rest)
    this.#timer = setInterval(() => void this.sweep().catch(() => undefined), sweepMs)
    this.#timer.unref()
    if (getSignedUrl) {
      const linkTo: Blobs['link'] = async (key, link) => {
        checkNames('S3Blobs: link', link, BLOB_LINK)
        const version = await this.#find(key, link.etag)
        return version && this.#objects.sign(folderOf(key) + version.id, getSignedUrl, link)
      }
      this.link = linkTo
    }
  }

  async put(key: string, content: AsyncIterable<Uint8Array>, options: BlobPutOptions): Promise<BlobInfo> {
    this.#check(key)
    checkNames('S3Blobs: put', options, BLOB_PUT)
    const { ttlMs, signal } = options
    checkBlobLifetime(ttlMs)
    const folder = folderOf(key)
    const id = randomBytes(16).toString('hex')
    const written = await this.#objects.write(folder + id, content, signal)
    this.#assertOpen()
    if (ttlMs > 0) {
      await this.#complete(folder, id, ttlMs)
    } else {
      await this.#bury(folder, await this.#versions(folder))
      await this.#objects.delete(folder + id)
    }
    return this.#infoOf({ id, ...written })
  }

  async stat(key: string): Promise<BlobInfo | undefined> {
    const version = await this.#find(key)
    return version && this.#infoOf(version)
  }

  async open(key: string, range: BlobRange = {}): Promise<AsyncIterable<Uint8Array> | undefined> {
    checkNames('S3Blobs: open', range, BLOB_RANGE)
    const version = await this.#find(key, range.etag)
    if (version === undefined) return undefined
    const { start, end } = blobRange(range, version.size)
    return this.#read(folderOf(key) + version.id, start, end, this.#objects.clock.now())
  }

  async renew(key: string, ttlMs: number): Promise<BlobInfo | undefined> {
    this.#check(key)
    checkBlobLifetime(ttlMs)
    const folder = folderOf(key)
    const version = await this.#current(folder)
    if (version === undefined) return undefined
    const { id, order, expiresAt } = version
    if (expiresAt - SECOND_MS >= this.#objects.clock.now() + Math.min(ttlMs, LONGEST_MS)) return this.#infoOf(version)
    // Earlier marks stay: another renewal may count on one of them.
    await this.#objects.mark(markOf(folder + id, order, ttlMs))
    // It may have been deleted or replaced meanwhile.
    const now = await this.#current(folder)
    return now && this.#infoOf(now)
  }

  async delete(key: string): Promise<boolean> {
    this.#check(key)
    const versions = await this.#versions(folderOf(key))
    await this.#bury(folderOf(key), versions)
    return versions[0] !== undefined && versions[0].expiresAt > this.#objects.clock.now()
  }

  /**
   * Removes expired content, and content that dead writers have left. Also runs every `sweepMs`.
   * Skips objects that it cannot delete, and at its end rejects with the first error.
   */
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
    const failures: unknown[] = []
    const attempt: Attempt = async (step) => {
      await step.catch((error: unknown) => { if (failures.length === 0) failures.push(error) })
    }
    let now: number | undefined
    let folder = ''
    let objects: Listed[] = []
    for await (const object of this.#objects.list('')) {
      if (this.#closed) return
      // The time of the first page. A later time could end what was renewed after its page was listed.
      now ??= this.#objects.clock.now()
      // The bucket may have other objects below the prefix.
      if (!OWN.test(object.name)) continue
      if (!object.name.startsWith(folder) || folder === '') {
        await this.#sweepFolder(folder, objects, now, attempt)
        folder = object.name.slice(0, object.name.indexOf('/') + 1)
        objects = []
      }
      objects.push(object)
    }
    now ??= this.#objects.clock.now()
    await this.#sweepFolder(folder, objects, now, attempt)
    for await (const upload of this.#objects.uploadsBefore(now - ABANDONED_MS)) {
      if (this.#closed) return
      if (OWN.test(upload.name)) await attempt(this.#objects.abort(upload))
    }
    if (failures.length > 0) throw failures[0]
  }

  /** Sweeps the objects of one key. */
  async #sweepFolder(folder: string, objects: readonly Listed[], now: number, attempt: Attempt): Promise<void> {
    const versions = versionsOf(objects)
    // Replaced by a writer that died before it could say so.
    await attempt(this.#bury(folder, versions.slice(1)))
    const contents = objects.filter(isContent)
    for (const content of contents) {
      const marks = marksOf(content, objects)
      if (endOf(content, marks, versions) >= now - SLACK_MS) continue
      // Content first: without its marks it could not be told from what is being written.
      await attempt(this.#objects.delete(content.name).then(() => this.#deleteAll(marks)))
    }
    // A mark without its content was written by a renewal during a deletion.
    const ids = new Set(contents.map(({ name }) => idOf(name)))
    await attempt(this.#deleteAll(objects.filter(({ name, at }) => !ids.has(idOf(name)) && at < now - ABANDONED_MS)))
  }

  async #deleteAll(objects: readonly Listed[]): Promise<void> {
    await changeEach(objects.map(({ name }) => name), (name) => this.#objects.delete(name))
  }

  /** Completes a version, and ends the older ones. */
  async #complete(folder: string, id: string, ttlMs: number): Promise<void> {
    let versions = await this.#versions(folder)
    for (;;) {
      const order = (versions[0]?.order ?? 0) + 1
      await this.#objects.mark(markOf(folder + id, order, ttlMs))
      versions = await this.#versions(folder)
      // Another writer that chose the same order is the newer one by its id. It may have completed before: go past it.
      if (versions[0]?.order !== order || versions[0].id === id) break
    }
    await this.#bury(folder, versions.slice(1))
  }

  /**
   * Reads content, and keeps it from being swept if that takes long. `openedAt`: a time at which
   * the content had not ended.
   */
  async* #read(name: string, start: number, end: number, openedAt: number): AsyncGenerator<Uint8Array, void, undefined> {
    const { clock } = this.#objects
    let heldAt = openedAt
    for await (const chunk of this.#objects.read(name, start, end)) {
      if (clock.now() - heldAt >= HOLD_MS) {
        // If this fails, the next chunk tries again.
        await this.#objects.mark(name + HOLD).then(() => { heldAt = clock.now() }, () => undefined)
      }
      yield chunk
    }
  }

  /**
   * Ends versions. A version with a higher order is not ended. Active readers get the content of
   * ended versions until a sweep.
   */
  async #bury(folder: string, versions: readonly Version[]): Promise<void> {
    await Promise.all(versions.map(({ id, order }) => this.#objects.mark(`${folder}${id}.${order}${GONE}`)))
  }

  /** Returns the blob at a key, unless it has expired or another entity tag. */
  async #find(key: string, etag?: string): Promise<Version | undefined> {
    this.#check(key)
    const version = await this.#current(folderOf(key))
    return version && (etag === undefined || etag === this.#infoOf(version).etag) ? version : undefined
  }

  /**
   * Returns size and entity tag of a version. With links, the tag is that of the object, because
   * the bucket sends this tag.
   */
  #infoOf({ id, size, etag }: Pick<Version, 'id' | 'size' | 'etag'>): BlobInfo {
    return { size, etag: this.link ? etag : `"${id}"` }
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

/** Returns the folder of the objects of a key. Keys may have characters that S3 does not allow. */
function folderOf(key: string): string {
  return `${createHash('sha256').update(key).digest('hex')}/`
}

/**
 * Returns the id of a version. `folder/id` is its content, and `folder/id.order.ttlMs` a mark that lets it live.
 * `folder/id.order.gone` ends it, unless it has a mark with a higher order.
 */
function idOf(name: string): string {
  return /\/([^.]*)/.exec(name)?.[1] ?? ''
}

/** Returns the name of a mark that lets a version live. */
function markOf(name: string, order: number, ttlMs: number): string {
  return `${name}.${order}.${Math.min(Math.ceil(ttlMs), LONGEST_MS)}`
}

/** Returns the orders of marks, 0 if there are none. */
function orderOf(marks: readonly Listed[]): number {
  return Math.max(0, ...marks.map(({ name }) => Number(name.split('.')[1])))
}

function isContent({ name }: Listed): boolean {
  return !name.includes('.')
}

function isEnd({ name }: Listed): boolean {
  return name.endsWith(GONE)
}

function isHold({ name }: Listed): boolean {
  return name.endsWith(HOLD)
}

function marksOf({ name }: Listed, objects: readonly Listed[]): Listed[] {
  return objects.filter((object) => object.name.startsWith(`${name}.`))
}

/** Returns the complete versions, the newest first. */
function versionsOf(objects: readonly Listed[]): Version[] {
  const versions: Version[] = []
  for (const content of objects.filter(isContent)) {
    const marks = marksOf(content, objects).filter((mark) => !isHold(mark))
    const lives = marks.filter((mark) => !isEnd(mark))
    const order = orderOf(lives)
    if (order <= orderOf(marks.filter(isEnd))) continue
    const expiresAt = Math.max(...lives.map((mark) => mark.at + SECOND_MS + Number(mark.name.split('.')[2])))
    versions.push({ id: idOf(content.name), size: content.size, etag: content.etag, order, expiresAt })
  }
  return versions.sort((one, other) => other.order - one.order || (other.id < one.id ? 1 : -1))
}

/** Returns the time since which nobody needs the content. */
function endOf(content: Listed, marks: readonly Listed[], [newest, ...replaced]: readonly Version[]): number {
  const id = idOf(content.name)
  if (marks.length === 0) return content.at + ABANDONED_MS
  if (replaced.some((version) => version.id === id)) return Infinity
  const ends = marks.filter((mark) => isEnd(mark) || isHold(mark)).map(({ at }) => at)
  return Math.max(newest?.id === id ? newest.expiresAt : -Infinity, ...ends)
}
