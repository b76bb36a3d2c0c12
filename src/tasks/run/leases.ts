import type { Revision, Store, Unsubscribe } from '../../stores/store.js'
import type { TaskSnapshot } from '../record/codec.js'
import { isFinal } from '../record/state.js'

/**
 * A notice this soon after a renewal is that of the own write, not of a reconnect. In milliseconds.
 */
const ECHO_MS = 1000
/**
 * Maximum number of tasks of one lost process that end together. The others end when they are read
 * again.
 */
const MAX_SUSPECTS = 1000

function aliveKey(holder: string): string {
  return `alive:${holder}`
}

/** Returns whether the lease of a process is alive. */
export async function isAlive(store: Store, holder: string): Promise<boolean> {
  return await store.get(aliveKey(holder)) !== undefined
}

/**
 * Finds tasks whose process has died, where the store is shared but the queue is not. Each record
 * names its holder, and each process renews a lease: one key in the store. A process that reads an
 * unfinished record checks the lease of its holder. If the lease is missing twice, half a lease
 * apart, it ends the record.
 */
export class Leases {
  private readonly suspects = new Map<string, Set<string>>()
  private readonly timers = new Set<ReturnType<typeof setTimeout>>()
  private readonly heartbeat: ReturnType<typeof setInterval>
  private revision: Revision | undefined
  private renewing: Promise<void> | undefined
  /** Time of the last renewal, on `performance.now()`. */
  private renewedAt = -Infinity
  private unwatch: Unsubscribe | undefined
  private closed = false

  /** @param interrupt - ends the record of a task if it is unfinished and still has this holder */
  constructor(
    private readonly store: Store, readonly holder: string,
    private readonly interrupt: (id: string, holder: string) => Promise<void>,
    private readonly leaseMs: number,
  ) {
    this.renew()
    this.heartbeat = setInterval(() => { this.renew() }, leaseMs / 4)
    this.heartbeat.unref()
  }

  /** Call for every record that is read. Fails the task if the process that owned it has died. */
  noteRead({ id, state, holder }: Pick<TaskSnapshot, 'id' | 'state'> & { readonly holder?: string | undefined }): void {
    if (holder === undefined || holder === this.holder || this.closed || isFinal(state)) return
    const known = this.suspects.get(holder)
    if (known) {
      if (known.size < MAX_SUSPECTS) known.add(id)
      return
    }
    this.suspects.set(holder, new Set([id]))
    this.isGone(holder).then((gone) => {
      if (gone && !this.closed) this.afterHalfALease(() => this.confirm(holder))
      else this.suspects.delete(holder)
    }, () => { this.suspects.delete(holder) })
  }

  /** Ends the lease of this process. */
  async close(): Promise<void> {
    this.closed = true
    clearInterval(this.heartbeat)
    for (const timer of this.timers) clearTimeout(timer)
    this.unwatch?.()
    await this.renewing
    try {
      await this.store.delete(aliveKey(this.holder))
    } catch {
      // It expires.
    }
  }

  private async confirm(holder: string): Promise<void> {
    try {
      if (!await this.isGone(holder)) return
      for (const id of this.suspects.get(holder) ?? []) await this.interrupt(id, holder)
    } catch {
      // The store is unavailable. The next read of such a record starts again.
    } finally {
      this.suspects.delete(holder)
    }
  }

  private async isGone(holder: string): Promise<boolean> {
    return !await isAlive(this.store, holder)
  }

  private afterHalfALease(what: () => Promise<void>): void {
    const timer = setTimeout(() => {
      this.timers.delete(timer)
      void what()
      // All leases have expired after an outage of the store. In this time each living process
      // renews its own.
    }, this.leaseMs / 2)
    timer.unref()
    this.timers.add(timer)
  }

  private renew(): void {
    if (this.closed) return
    this.renewing ??= this.write().catch(() => undefined).then(() => { this.renewing = undefined })
  }

  private async write(): Promise<void> {
    const key = aliveKey(this.holder)
    const options = { ttlMs: this.leaseMs }
    const renewed = this.revision === undefined ? undefined : await this.store.replace(key, '', this.revision, options)
    if (renewed?.replaced) this.revision = renewed.revision
    else {
      const made = await this.store.create(key, '', options)
      this.revision = made.created ? made.revision : made.entry.revision
    }
    this.renewedAt = performance.now()
    // A notice comes after every reconnect. The lease may have expired during the outage.
    this.unwatch ??= await this.store.watch(key, () => {
      if (performance.now() - this.renewedAt > ECHO_MS) this.renew()
    })
    if (this.closed) this.unwatch()
  }
}
