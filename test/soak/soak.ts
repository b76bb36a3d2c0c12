import { setTimeout as sleep } from 'node:timers/promises'
import { Chaos } from './chaos.js'
import { checkLeaks, checkLeft, checkRuns, settle } from './check.js'
import { Ledger } from './ledger.js'
import { Load } from './load.js'
import { Random } from './random.js'
import { Receiver } from './receiver.js'
import { postgresServer, redisServer, type SoakServer } from './server.js'
import { Site } from './site.js'
import type { Vitals } from './terms.js'

/** Which engine has the tasks. */
export type Engine = 'memory' | 'redis' | 'postgres'

export interface SoakOptions {
  readonly engine: Engine
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
  /** What is left on the server, by kind. */
  readonly left: Readonly<Record<string, number>>
  readonly callbacks: { readonly heard: number, readonly repeated: number }
  readonly before: readonly Vitals[]
  readonly after: readonly Vitals[]
}

/** How long all that was promised has to come to its end once nobody does harm any more. */
const SETTLE_MS = 90_000

const SERVERS: Readonly<Record<Engine, () => Promise<SoakServer> | undefined>> = {
  memory: () => undefined, redis: redisServer, postgres: postgresServer,
}

/** Mixed load on processes whose server, network and engine fail meanwhile; then everything is held against the ledger. */
export async function soak(options: SoakOptions): Promise<SoakReport> {
  const { engine, seconds, seed, perSecond, everyMs } = options
  const server = await SERVERS[engine]()
  const ledger = new Ledger()
  const receiver = await Receiver.start(ledger)
  const site = await Site.start(server, new Random(seed ^ 3))
  try {
    const load = (part: number): Load => new Load(site.webs.map(({ url }) => url), receiver.url, new Random(seed ^ part), ledger)
    // Code that has never run and connections that have never been made are no leak.
    await load(1).run(perSecond, AbortSignal.timeout(3000))
    await sleep(1000)
    const before = await site.vitals()
    const time = AbortSignal.timeout(seconds * 1000)
    const chaos = server && new Chaos(server, site, new Random(seed))
    await Promise.all([load(2).run(perSecond, time), chaos?.run(everyMs, time)])
    await settle(site, ledger, receiver, SETTLE_MS)
    await sleep(2000)
    const after = await site.vitals()
    for (const [at, now] of after.entries()) checkLeaks(before[at] as Vitals, now, ledger)
    const runs = checkRuns(site, ledger)
    const left = server ? await checkLeft(server.url(server.port), ledger, SETTLE_MS) : {}
    await site.stop()
    for (const exit of site.exits) ledger.fault(exit)
    const broken = [...ledger.broken].map(([what, count]) => (count === 1 ? what : `${what} (${String(count)} times)`))
    return { ...options, broken, ledger, blows: chaos?.done ?? [], runs, left, callbacks: { heard: receiver.heard.size, repeated: receiver.repeated }, before, after }
  } finally {
    site.remove()
    receiver.stop()
    await server?.stop()
  }
}
