import { setTimeout } from './real-timers.js'

/** Minimum time between two messages, in milliseconds. */
const GATHER_MS = 5
/** Maximum number of notices in one message. */
const MAX_BATCH = 500
/** Maximum number of waiting notices. Further ones are dropped, because a notice is a hint. */
const MAX_WAITING = 10_000

/**
 * Sends notices to other processes: the first one at once, and those of the next milliseconds
 * together. A message for each change would cost as much as the change itself.
 */
export class Notices {
  private readonly waiting = new Set<string>()
  private sending: Promise<void> | undefined

  /** @param send - sends some notices. A failure is ignored: who waits also reads at intervals. */
  constructor(private readonly send: (names: readonly string[]) => Promise<unknown>) {}

  /** Sends a notice with a name. */
  add(name: string): void {
    if (this.waiting.size < MAX_WAITING) this.waiting.add(name)
    this.sending ??= this.sendAll()
  }

  /** Resolves when all notices so far were sent. */
  async flush(): Promise<void> {
    await this.sending
  }

  private async sendAll(): Promise<void> {
    while (this.waiting.size > 0) {
      const names = [...this.waiting].slice(0, MAX_BATCH)
      for (const name of names) this.waiting.delete(name)
      const pause = new Promise((resolve) => { setTimeout(resolve, GATHER_MS) })
      await this.send(names).catch(() => undefined)
      await pause
    }
    this.sending = undefined
  }
}
