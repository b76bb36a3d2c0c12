import type { Revision, Store, Unsubscribe } from '../../stores/store.js'
import type { TaskSnapshot } from '../record/codec.js'
import { isFinal } from '../record/state.js'

/** Own writes are told of too: a notice this soon after a beat is no reconnect. */
const ECHO_MS = 1000
/** Tasks of one lost process that are ended in one go; the rest when they are read again. */
const MAX_SUSPECTS = 1000

/** Where a process says that it lives. */
const aliveKey = (holder: string): string => `alive:${holder}`

/** Whether the process of this name has said lately that it lives. */
export async function isAlive(store: Store, holder: string): Promise<boolean> {
  return await store.get(aliveKey(holder)) !== undefined
}

/**
 * Where the store is shared but the queue is not, work dies with its process while its record lives
 * on. Each record so names its holder, each process keeps one key alive, and whoever reads an
 * unfinished record whose holder's key is missing, twice and half a lease apart, ends it.
 */
export class Leases {
  private readonly suspects = new Map<string, Set<string>>()
  private readonly timers = new Set<ReturnType<typeof setTimeout>>()
  private readonly heart: ReturnType<typeof setInterval>
  private revision: Revision | undefined
  private beating: Promise<void> | undefined
  /** When it was written last, on `performance.now()`. */
  private lastBeat = -Infinity
  private unwatch: Unsubscribe | undefined
  private closed = false

  /** `interrupt` ends the record of a task if it is unfinished and still this holder's. */
  constructor(
    private readonly store: Store, readonly holder: string, private readonly interrupt: (id: string, holder: string) => Promise<void>,
    private readonly leaseMs: number,
  ) {
    this.beat()
    this.heart = setInterval(() => { this.beat() }, leaseMs / 4)
    this.heart.unref()
  }

  /** To be told of every record that is read. */
  see({ id, state, holder }: Pick<TaskSnapshot, 'id' | 'state'> & { readonly holder?: string | undefined }): void {
    if (holder === undefined || holder === this.holder || this.closed || isFinal(state)) return
    const known = this.suspects.get(holder)
    if (known) {
      if (known.size < MAX_SUSPECTS) known.add(id)
      return
    }
    this.suspects.set(holder, new Set([id]))
    this.isGone(holder).then((gone) => {
      if (gone && !this.closed) this.later(() => this.confirm(holder))
      else this.suspects.delete(holder)
    }, () => { this.suspects.delete(holder) })
  }

  /** Stops saying that this process lives. */
  async close(): Promise<void> {
    this.closed = true
    clearInterval(this.heart)
    for (const timer of this.timers) clearTimeout(timer)
    this.unwatch?.()
    await this.beating
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
      // The store is away: whoever reads next begins anew.
    } finally {
      this.suspects.delete(holder)
    }
  }

  private async isGone(holder: string): Promise<boolean> {
    return !await isAlive(this.store, holder)
  }

  private later(what: () => Promise<void>): void {
    const timer = setTimeout(() => {
      this.timers.delete(timer)
      void what()
      // After an outage of the store all keys have expired: in this time every process that lives
      // writes its own.
    }, this.leaseMs / 2)
    timer.unref()
    this.timers.add(timer)
  }

  private beat(): void {
    if (this.closed) return
    this.beating ??= this.write().catch(() => undefined).then(() => { this.beating = undefined })
  }

  private async write(): Promise<void> {
    const key = aliveKey(this.holder)
    const options = { ttlMs: this.leaseMs }
    const kept = this.revision === undefined ? undefined : await this.store.replace(key, '', this.revision, options)
    if (kept?.replaced) this.revision = kept.revision
    else {
      const made = await this.store.create(key, '', options)
      this.revision = made.created ? made.revision : made.entry.revision
    }
    this.lastBeat = performance.now()
    // A notice comes after every reconnect: the key may have expired while the store was away.
    this.unwatch ??= await this.store.watch(key, () => {
      if (performance.now() - this.lastBeat > ECHO_MS) this.beat()
    })
    if (this.closed) this.unwatch()
  }
}
