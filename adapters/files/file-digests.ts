import { createHash } from 'node:crypto'
import { LRUCache } from 'lru-cache'
import { DIGEST_ALGORITHMS, type DigestAlgorithm } from '../../src/http/headers/digests.js'
import { readOptions, whole, type OptionTable } from '../../src/runtime/options.js'
import { readFilePart, type FoundFile } from './read.js'

/** Options of the digests of files. */
export interface FileDigestOptions {
  /**
   * Maximum size of a file whose digest is computed, in bytes. Default: 268_435_456 (256 MiB).
   *
   * The first client that wants the digest waits for it, about a second for 1 GiB.
   */
  readonly maxFileBytes?: number
}

const DIGESTS = {
  maxFileBytes: whole({ min: 1, infinity: true, default: 268_435_456 }),
} satisfies OptionTable<FileDigestOptions>
/** Digests that are kept, of about 300 bytes each, and files that are read at the same time. */
const LIMITS = { maxEntries: 10_000, concurrency: 2 }

export class FileDigests {
  private readonly options: Required<FileDigestOptions>
  /** Digests by path, entity tag and algorithm, in the order of their last use. */
  private readonly kept: LRUCache<string, string>
  private readonly running = new Map<string, Promise<string | undefined>>()

  constructor(where: string, options: FileDigestOptions, private readonly limits = LIMITS) {
    this.options = readOptions(`${where}: digests`, options, DIGESTS)
    this.kept = new LRUCache({ max: limits.maxEntries })
  }

  /**
   * Returns a digest in base64; `undefined` if the file is too large or unreadable, its tag is
   * weak, or too many files are being read.
   */
  async digestOf(
    file: FoundFile, etag: string, algorithm: DigestAlgorithm,
  ): Promise<string | undefined> {
    if (etag.startsWith('W/') || file.version.size > this.options.maxFileBytes) return undefined
    // Tags of the application need be unique for one file only.
    const key = `${algorithm} ${etag} ${file.path}`
    const known = this.kept.get(key)
    if (known !== undefined) return known
    const running = this.running.get(key)
    if (running !== undefined || this.running.size >= this.limits.concurrency) return running
    const computing = this.compute(key, file, algorithm)
    this.running.set(key, computing)
    return computing
  }

  private async compute(
    key: string, file: FoundFile, algorithm: DigestAlgorithm,
  ): Promise<string | undefined> {
    try {
      const hash = createHash(DIGEST_ALGORITHMS[algorithm].hash)
      for await (const bytes of readFilePart(file, 0, Number(file.version.size))) hash.update(bytes)
      const digest = hash.digest('base64')
      this.kept.set(key, digest)
      return digest
    } catch {
      // Sending the file will fail too, and reports the error.
      return undefined
    } finally {
      this.running.delete(key)
    }
  }
}
