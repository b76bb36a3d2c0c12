import { open, rm } from 'node:fs/promises'
import { join } from 'node:path'
import { partialName } from './blob-sweep.js'

/** Validity of one reading of the clock in milliseconds. */
const FRESH_MS = 60_000

/**
 * Clock of the file system of a folder, in milliseconds since 1970. It is the same for all
 * processes and machines that share the folder. Reads the time from a new file, at most once a
 * minute.
 */
export class FolderClock {
  /** Difference to `performance.now()`. */
  private offset = 0
  private lookedAt = -Infinity

  /** `own`: a clock for tests. */
  constructor(private readonly folder: string, private readonly own: (() => number) | undefined) {}

  async now(): Promise<number> {
    if (this.own) return this.own()
    if (performance.now() - this.lookedAt > FRESH_MS) await this.look()
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
