import { setTimeout as sleep } from 'node:timers/promises'
import type { TcpProxy } from '../servers/tcp-proxy.js'
import { monotonicMs } from './history.js'
import type { Random } from './random.js'
import type { Fault, SoakServer } from './server.js'
import type { Site } from './site.js'

/**
 * Harms the server, the network and the processes at random, one thing at a time. All is well again after
 * each.
 */
export class Chaos {
  /** Faults so far, with their times by the monotonic clock. */
  readonly done: { readonly at: number, readonly fault: string, readonly ms: number }[] = []
  private readonly faults: Readonly<Record<string, Fault>>

  constructor(server: SoakServer, private readonly site: Site, private readonly random: Random) {
    const network = server.port === undefined ? {} : this.networkFaults()
    this.faults = { ...server.faults, ...network, ...this.processFaults() }
  }

  async run(everyMs: readonly [number, number], signal: AbortSignal): Promise<void> {
    const entries = Object.entries(this.faults).map(([name, { weight }]) => [name, weight] as const)
    const weights = Object.fromEntries(entries)
    while (!signal.aborted) {
      await sleep(this.random.between(...everyMs), undefined, { signal }).catch(() => undefined)
      if (signal.aborted) return
      const fault = this.random.pick(weights)
      const ms = Math.round(this.random.between(200, 6000))
      this.done.push({ at: monotonicMs(), fault, ms })
      await this.faults[fault]?.cause(ms)
    }
  }

  private networkFaults(): Readonly<Record<string, Fault>> {
    type Change = (proxy: TcpProxy) => void
    const through = async (ms: number, harm: Change, mend: Change): Promise<void> => {
      const proxies = this.someProxies()
      for (const proxy of proxies) harm(proxy)
      await sleep(ms)
      for (const proxy of proxies) mend(proxy)
    }
    const swallow: Change = (proxy) => { proxy.swallow() }
    const swallowReplies: Change = (proxy) => { proxy.swallowReplies() }
    const heal: Change = (proxy) => { proxy.heal() }
    const delay: Change = (proxy) => { proxy.latencyMs = this.random.between(50, 1500) }
    const hurry: Change = (proxy) => { proxy.latencyMs = 0 }
    return {
      losePackets: { weight: 3, cause: (ms) => through(ms, swallow, heal) },
      loseReplies: { weight: 3, cause: (ms) => through(ms, swallowReplies, heal) },
      delay: { weight: 2, cause: (ms) => through(ms, delay, hurry) },
      forgetConnections: { weight: 2, cause: async () => {
        for (const proxy of this.someProxies()) proxy.forget()
      } },
    }
  }

  private processFaults(): Readonly<Record<string, Fault>> {
    const { random, site } = this
    return {
      killWorker: { weight: 3, cause: () => random.one(site.workers).kill() },
      killWorkers: { weight: 1, cause: async () => {
        await Promise.all(site.workers.map((worker) => worker.kill()))
      } },
      stopWorker: { weight: 1, cause: () => random.one(site.workers).replace() },
      killWeb: { weight: 1, cause: () => random.one(site.webs).kill() },
      freezeWorker: { weight: 2, cause: async (ms) => {
        const worker = random.one(site.workers)
        worker.signal('SIGSTOP')
        // Past its leases, now and then.
        await sleep(2 * ms)
        worker.signal('SIGCONT')
      } },
    }
  }

  /** The network of one process, or of all. */
  private someProxies(): readonly TcpProxy[] {
    const proxies = this.site.members.map(({ proxy }) => proxy)
    return this.random.chance(0.3) ? proxies : [this.random.one(proxies)]
  }
}
