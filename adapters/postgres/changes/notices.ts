import timers from 'node:timers'
import type { Database } from '../database.js'

// Captured at once: the server keeps real time, also under a test's fake timers.
const { setTimeout } = timers

/** Channels of change notices within a schema: of entries, and of tasks. */
export type Channel = 'changes' | 'tasks'

/** Minimum time between two statements with notices, in milliseconds. */
const GATHER_MS = 5
/** Maximum number of notices in one statement. */
const MAX_BATCH = 500
/** Maximum number of waiting notices. Further ones are dropped, because a notice is a hint. */
const MAX_WAITING = 10_000

/**
 * Sends change notices, some milliseconds after the writes, in statements of their own. PostgreSQL
 * commits transactions with a notice one at a time, each with its own write to the disk. A notice
 * in the statement of the write would therefore limit the whole server to a few hundred writes a
 * second. A transaction with notices alone waits for no disk.
 */
export class Notices {
  private waiting = new Set<string>()
  private sending: Promise<void> | undefined

  constructor(
    private readonly database: Database, private readonly channel: Channel = 'changes',
  ) {}

  /** Sends a notice that the entry or task of `key` has changed. */
  add(key: string): void {
    if (this.waiting.size < MAX_WAITING) this.waiting.add(key)
    this.sending ??= this.send()
  }

  /** Resolves when all notices so far were sent. */
  async flush(): Promise<void> {
    await this.sending
  }

  private async send(): Promise<void> {
    while (this.waiting.size > 0) {
      const keys = [...this.waiting].slice(0, MAX_BATCH)
      for (const key of keys) this.waiting.delete(key)
      const pause = new Promise((resolve) => { setTimeout(resolve, GATHER_MS) })
      // A lost notice is harmless: watchers also read at intervals.
      await this.database.notify(this.channel, keys.map(payloadOf)).catch(() => undefined)
      await pause
    }
    this.sending = undefined
  }
}

/**
 * Returns the payload of the notice of a change. Keys are far below the limit of 8000 bytes. PGlite
 * drops a byte order mark at the start of a text, hence the sign before the key.
 */
function payloadOf(key: string): string {
  return `=${key}`
}

/** Returns the key in a payload. */
export function keyOf(payload: string): string {
  return payload.slice(1)
}
