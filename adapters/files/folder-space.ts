import { randomBytes } from 'node:crypto'
import { lstat, open, rm } from 'node:fs/promises'
import { join } from 'node:path'
import { StoreUnavailableError } from '../../src/stores/store.js'

/** Size in bytes that each file counts in addition, because file systems store whole blocks. */
const BLOCK_BYTES = 4096
/** Part of the limit above which the folder is measured again, because other processes write. */
const NEAR = 3 / 4
const FRESH_MS = 2000
/**
 * Minimum time between two measurements near the limit, as a multiple of the duration of the last
 * one.
 */
const REST = 10
const CLOCK_FRESH_MS = 60_000
export const PARTIAL = '.partial'

export function partialName(): string {
  return `${randomBytes(16).toString('hex')}${PARTIAL}`
}

export interface Reservation {
  add(bytes: number): Promise<void>
  /** Call when the file is complete. It replaced a file that counted `replaced` bytes. */
  complete(replaced: number): void
  end(): void
}

export function countedBytes(fileSize: number): number {
  return fileSize + BLOCK_BYTES
}

export async function countedBytesOf(path: string): Promise<number> {
  try {
    return countedBytes((await lstat(path)).size)
  } catch (error) {
    if ((error as NodeJS.ErrnoException).code === 'ENOENT') return 0
    throw error
  }
}

export class FolderSpace {
  /** Bytes that the last sweep found, without the unfinished files of this process. */
  #measured: number | undefined
  /** Bytes that this process added and removed since the last sweep began. */
  #changed = 0
  #reserved = 0
  #measuredAt = 0
  #restMs = 0
  readonly #unfinished = new Set<string>()

  constructor(
    private readonly maxBytes: number,
    private readonly now: () => Promise<number>,
    private readonly sweep: () => Promise<void>,
  ) {}

  isReserved(name: string): boolean {
    return this.#unfinished.has(name)
  }

  /** Runs a sweep, which returns the bytes of all files that remain, without reserved ones. */
  async measure(sweep: () => Promise<number>): Promise<void> {
    const before = this.#changed
    const start = performance.now()
    this.#measured = await sweep()
    // Changes during the sweep count in addition, because it may have missed them.
    this.#changed -= before
    this.#restMs = Math.max(FRESH_MS, REST * (performance.now() - start))
    this.#measuredAt = await this.now()
  }

  reserve(name: string): Reservation {
    let held = 0
    this.#unfinished.add(name)
    const end = (): void => {
      this.#reserved -= held
      held = 0
      this.#unfinished.delete(name)
    }
    return {
      add: async (bytes) => {
        await this.#refresh(bytes)
        if (this.#used() + bytes > this.maxBytes) {
          throw new StoreUnavailableError(
            'There is no space for more blobs: the folder has reached maxBytes', { reason: 'full' },
          )
        }
        held += bytes
        this.#reserved += bytes
      },
      complete: (replaced) => {
        this.#changed += held - replaced
        end()
      },
      end,
    }
  }

  removed(bytes: number): void {
    this.#changed -= bytes
  }

  #used(): number {
    return (this.#measured ?? 0) + this.#changed + this.#reserved
  }

  /** Sweeps before the first write, and near the limit if the last sweep is not recent. */
  async #refresh(bytes: number): Promise<void> {
    if (this.maxBytes === Infinity) return
    if (this.#measured !== undefined) {
      if (this.#used() + bytes <= this.maxBytes * NEAR) return
      // The clock may jump back.
      if (Math.abs((await this.now()) - this.#measuredAt) < this.#restMs) return
    }
    await this.sweep()
  }
}

/** Clock of the file system of a folder, in milliseconds since 1970. */
export class FolderClock {
  private offset = 0
  private lookedAt = -Infinity

  constructor(private readonly folder: string, private readonly own: (() => number) | undefined) {}

  async now(): Promise<number> {
    if (this.own) return this.own()
    if (performance.now() - this.lookedAt > CLOCK_FRESH_MS) await this.look()
    return this.offset + performance.now()
  }

  private async look(): Promise<void> {
    const path = join(this.folder, partialName())
    const handle = await open(path, 'wx', 0o600)
    try {
      const { mtimeMs } = await handle.stat()
      this.lookedAt = performance.now()
      this.offset = mtimeMs - this.lookedAt
    } finally {
      await handle.close()
      await rm(path, { force: true })
    }
  }
}
