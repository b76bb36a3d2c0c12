import { open, rm } from 'node:fs/promises'
import { join } from 'node:path'
import { partialName } from './blob-sweep.js'

/** How long one look at the clock is good for, in milliseconds. */
const FRESH_MS = 60_000

/**
 * The clock of the file system that a folder is on, in milliseconds since 1970: it is the same for
 * all processes and machines that share the folder, whatever their own clocks say. Read from a file
 * that is made for that, once a minute at most.
 */
export class FolderClock {
  /** What to add to `performance.now()`. */
  private offset = 0
  private lookedAt = -Infinity

  /** `own`: another clock in its place, for tests. */
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
