import { setInterval, clearInterval } from '../../../src/runtime/timers.js'
import { StoreUnavailableError } from '../../../src/stores/store.js'
import type { BlobRows } from './rows.js'

/** Interval of renewals in milliseconds. A lease lasts for 15 minutes. */
const RENEW_MS = 60_000

/** Protection of one version while it is read or written. */
export class Lease {
  readonly ref = new WeakRef(this)
  constructor(readonly version: string) {}
}

/** The leases of one version in this process. */
interface Held {
  readonly leases: Set<WeakRef<Lease>>
  /** Time of the last renewal in milliseconds. */
  renewedAt: number
}

/**
 * The leases of this process. One statement a minute renews all of them. Only weak references are
 * kept: if a consumer drops an iterator without `return`, its lease ends by garbage collection.
 */
export class BlobLeases {
  private readonly held = new Map<string, Held>()
  private timer: ReturnType<typeof setInterval> | undefined

  constructor(private readonly rows: BlobRows) {}

  /**
   * Acquires a lease for a reader.
   *
   * @throws {StoreUnavailableError} The version was removed.
   */
  async acquire(version: string): Promise<Lease> {
    const held = this.held.get(version)
    const isFresh = held !== undefined && performance.now() - held.renewedAt < RENEW_MS
    if (!isFresh && await this.rows.hold([version]) === 0) {
      throw new StoreUnavailableError('The blob was removed before it was read')
    }
    return this.keep(version)
  }

  /** Keeps a lease that was just written to the database. */
  keep(version: string): Lease {
    const lease = new Lease(version)
    const held = this.held.get(version)
    if (held) held.leases.add(lease.ref)
    else this.held.set(version, { leases: new Set([lease.ref]), renewedAt: performance.now() })
    this.timer ??= setInterval(() => { this.renew().catch(() => undefined) }, RENEW_MS).unref()
    return lease
  }

  /** Ends a lease. */
  release({ version, ref }: Lease): void {
    const held = this.held.get(version)
    held?.leases.delete(ref)
    if (held?.leases.size === 0) this.held.delete(version)
    if (this.held.size === 0) this.close()
  }

  /** Stops the renewals. */
  close(): void {
    clearInterval(this.timer)
    this.timer = undefined
  }

  /** Renews all leases. Also runs every minute. */
  async renew(): Promise<void> {
    for (const { leases } of this.held.values()) {
      for (const ref of leases) if (ref.deref() === undefined) leases.delete(ref)
    }
    for (const [version, { leases }] of this.held) if (leases.size === 0) this.held.delete(version)
    if (this.held.size === 0) {
      this.close()
      return
    }
    const renewed = [...this.held]
    await this.rows.hold(renewed.map(([version]) => version))
    const now = performance.now()
    for (const [, held] of renewed) held.renewedAt = now
  }
}
