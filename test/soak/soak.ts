import { setTimeout as sleep } from 'node:timers/promises'
import { RedisServer } from '../servers/redis-server.js'
import { Chaos } from './chaos.js'
import { checkKeys, checkLeaks, checkRuns, settle } from './check.js'
import { Ledger } from './ledger.js'
import { Load } from './load.js'
import { Random } from './random.js'
import { Receiver } from './receiver.js'
import { Site } from './site.js'
import type { Vitals } from './terms.js'

export interface SoakOptions {
  readonly seconds: number
  readonly seed: number
  readonly perSecond: number
  /** A new blow comes so long after the one before, in milliseconds: from, to. */
  readonly everyMs: readonly [number, number]
}

/** What a run came to. It is good when `broken` is empty. */
export interface SoakReport extends SoakOptions {
  readonly broken: readonly string[]
  readonly ledger: Ledger
  readonly blows: Chaos['done']
  readonly runs: ReadonlyMap<number, number>
  readonly keys: Readonly<Record<string, number>>
  readonly callbacks: { readonly heard: number, readonly repeated: number }
  readonly before: readonly Vitals[]
  readonly after: readonly Vitals[]
}

/** How long all that was promised has to come to its end once nobody does harm any more. */
const SETTLE_MS = 90_000

/** Mixed load on two web processes and a worker whose Redis is killed, paused and filled meanwhile; then everything is held against the ledger. */
export async function soak(options: SoakOptions): Promise<SoakReport> {
  const { seconds, seed, perSecond, everyMs } = options
  const redis = await RedisServer.start(['--appendonly', 'yes', '--appendfsync', 'always'])
  const ledger = new Ledger()
  const receiver = await Receiver.start(ledger)
  const site = await Site.start(redis.url)
  try {
    // Code that has never run and connections that have never been made are no leak.
    await new Load(site.urls, receiver.url, new Random(seed ^ 1), ledger).run(perSecond, AbortSignal.timeout(3000))
    await sleep(1000)
    const { webs: before } = await site.vitals()
    const time = AbortSignal.timeout(seconds * 1000)
    const chaos = new Chaos(redis, site, new Random(seed))
    await Promise.all([new Load(site.urls, receiver.url, new Random(seed ^ 2), ledger).run(perSecond, time), chaos.run(everyMs, time)])
    await settle(site, ledger, receiver, SETTLE_MS)
    await sleep(2000)
    const { webs: after } = await site.vitals()
    for (const [at, now] of after.entries()) checkLeaks(before[at] as Vitals, now, ledger)
    const runs = checkRuns(site, ledger)
    const keys = await checkKeys(redis.url, ledger)
    await site.stop()
    for (const exit of site.exits) ledger.fault(exit)
    const broken = [...ledger.broken].map(([what, count]) => (count === 1 ? what : `${what} (${String(count)} times)`))
    return { ...options, broken, ledger, blows: chaos.done, runs, keys, callbacks: { heard: receiver.heard.size, repeated: receiver.repeated }, before, after }
  } finally {
    site.abandon()
    receiver.stop()
    await redis.stop()
  }
}
