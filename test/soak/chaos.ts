import { setTimeout as sleep } from 'node:timers/promises'
import type { TcpProxy } from '../servers/tcp-proxy.js'
import type { Random } from './random.js'
import type { SoakServer } from './server.js'
import type { Site } from './site.js'

/** Faults of the server, of the network before it, and of the processes. */
const WEIGHTS = {
  killServer: 3, pauseServer: 3, rejectWrites: 2, dropConnections: 2,
  losePackets: 3, loseReplies: 3, forgetConnections: 2, delay: 2,
  killWorker: 3, stopWorker: 1, freezeWorker: 2, killWeb: 1,
} as const
export type Blow = keyof typeof WEIGHTS

/** Does harm to the server, the network and the processes, one thing at a time, at random; all is well again after each. */
export class Chaos {
  readonly done: { readonly atMs: number, readonly blow: Blow, readonly ms: number }[] = []
  private readonly began = performance.now()

  constructor(private readonly server: SoakServer, private readonly site: Site, private readonly random: Random) {}

  async run(everyMs: readonly [number, number], signal: AbortSignal): Promise<void> {
    while (!signal.aborted) {
      await sleep(this.random.between(...everyMs), undefined, { signal }).catch(() => undefined)
      if (signal.aborted) return
      const blow = this.random.pick(WEIGHTS)
      const ms = Math.round(this.random.between(200, 6000))
      this.done.push({ atMs: Math.round(performance.now() - this.began), blow, ms })
      await this.strike(blow, ms)
    }
  }

  private async strike(blow: Blow, ms: number): Promise<void> {
    const { server, site } = this
    if (blow === 'killServer') {
      await server.kill()
      await sleep(ms)
      await server.run()
    } else if (blow === 'pauseServer') {
      server.freeze()
      await sleep(ms)
      server.thaw()
    } else if (blow === 'rejectWrites') {
      await server.rejectWrites(true)
      await sleep(ms / 2)
      await server.rejectWrites(false)
    } else if (blow === 'dropConnections') await server.drop()
    else if (blow === 'losePackets') await this.through(ms, (proxy) => { proxy.swallow() })
    else if (blow === 'loseReplies') await this.through(ms, (proxy) => { proxy.swallowReplies() })
    else if (blow === 'forgetConnections') for (const proxy of this.someProxies()) proxy.forget()
    else if (blow === 'delay') await this.delay(ms)
    else if (blow === 'killWorker') await site.worker.kill()
    else if (blow === 'stopWorker') await site.worker.replace()
    else if (blow === 'killWeb') await this.random.one(site.webs).kill()
    else {
      // Past its leases, now and then.
      site.worker.signal('SIGSTOP')
      await sleep(2 * ms)
      site.worker.signal('SIGCONT')
    }
  }

  private async through(ms: number, harm: (proxy: TcpProxy) => void): Promise<void> {
    const proxies = this.someProxies()
    for (const proxy of proxies) harm(proxy)
    await sleep(ms)
    for (const proxy of proxies) proxy.heal()
  }

  private async delay(ms: number): Promise<void> {
    const proxies = this.someProxies()
    for (const proxy of proxies) proxy.latencyMs = this.random.between(50, 1500)
    await sleep(ms)
    for (const proxy of proxies) proxy.latencyMs = 0
  }

  /** The network of one process, or of all. */
  private someProxies(): readonly TcpProxy[] {
    const proxies = this.site.members.map(({ proxy }) => proxy)
    return this.random.chance(0.3) ? proxies : [this.random.one(proxies)]
  }
}
