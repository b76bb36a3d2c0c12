import { cpSync, mkdtempSync, rmSync, writeFileSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { setTimeout as sleep } from 'node:timers/promises'
import { Chaos } from './chaos.js'
import { checkHistory, type HistoryCounts } from './check-history.js'
import { checkLeft } from './check-left.js'
import { checkPlaces } from './check-places.js'
import { checkLeaks, checkRuns, settle } from './check.js'
import { Client } from './client.js'
import { Ledger } from './ledger.js'
import { LimitedLoad } from './limited-load.js'
import { Load } from './load.js'
import { loseBegins, type LostBegins } from './lost-begins.js'
import { pauseAtRandom } from './pauses.js'
import { Random } from './random.js'
import { Receiver } from './receiver.js'
import { postgresServer, redisServer, sqliteFile, type SoakServer } from './server.js'
import { Site } from './site.js'
import type { Vitals } from './terms.js'

/** Which engine has the tasks. */
export type Engine = 'memory' | 'sqlite' | 'redis' | 'postgres'

export interface SoakOptions {
  readonly engine: Engine
  readonly seconds: number
  readonly seed: number
  readonly perSecond: number
  /** Time between two faults, in milliseconds: from, to. */
  readonly everyMs: readonly [number, number]
}

/** What a run came to. It is good when `broken` is empty. */
export interface SoakReport extends SoakOptions {
  readonly broken: readonly string[]
  readonly ledger: Ledger
  readonly faults: Chaos['done']
  readonly runs: ReadonlyMap<number, number>
  readonly history: HistoryCounts
  /** Begins that the server was made to lose. */
  readonly lost: LostBegins
  /** What is left on the server, by kind. */
  readonly left: Readonly<Record<string, number>>
  readonly callbacks: { readonly heard: number, readonly repeated: number }
  readonly before: readonly Vitals[]
  readonly after: readonly Vitals[]
}

/** How long all that was promised has to come to its end once nobody does harm any more. */
const SETTLE_MS = 90_000
/** How often the server loses begins, and after how many seconds of the test once more. */
const ROUNDS = 3
const ROUND_S = 120

type Start = (folder: string) => Promise<SoakServer> | SoakServer | undefined

const SERVERS: Readonly<Record<Engine, Start>> = {
  memory: () => undefined, redis: redisServer, postgres: postgresServer,
  sqlite: (folder) => sqliteFile(join(folder, 'data.db')),
}

/**
 * Mixed load on processes whose server, network and engine fail meanwhile. Then everything is held against
 * the ledger, and the history of the engines against their contract.
 */
export async function soak(options: SoakOptions): Promise<SoakReport> {
  const { engine, seconds, seed, perSecond, everyMs } = options
  const folder = mkdtempSync(join(tmpdir(), 'longhaul-soak-'))
  const server = await SERVERS[engine](folder)
  const ledger = new Ledger()
  const receiver = await Receiver.start(ledger)
  const site = await Site.start(server, folder, new Random(seed ^ 3))
  const client = new Client(site.webs.map(({ url }) => url), new Random(seed ^ 4), ledger)
  try {
    const load = (part: number): Load => new Load(client, receiver.url, new Random(seed ^ part), ledger)
    const limited = new LimitedLoad(client, new Random(seed ^ 5), ledger)
    // Code that has never run and connections that have never been made are no leak.
    await load(1).run(perSecond, AbortSignal.timeout(3000))
    client.close()
    await sleep(1000)
    const before = await site.vitals()
    const time = AbortSignal.timeout(seconds * 1000)
    const chaos = server && new Chaos(server, site, new Random(seed))
    const [pauses] = await Promise.all([
      pauseAtRandom(site, 'limited', new Random(seed ^ 6), time),
      load(2).run(perSecond, time), limited.run(time), chaos?.run(everyMs, time),
    ])
    await settle(site, ledger, receiver, SETTLE_MS)
    const events = [...site.history(), ...pauses]
    const runs = checkRuns(events, ledger)
    const history = await checkHistory(events, site, ledger)
    await checkPlaces(site, limited, ledger)
    client.close()
    await sleep(2000)
    const after = await site.vitals()
    for (const [at, now] of after.entries()) checkLeaks(before[at] as Vitals, now, ledger)
    const left = server ? await checkLeft(server.url(), ledger, SETTLE_MS) : {}
    const rounds = ROUNDS + Math.floor(seconds / ROUND_S)
    const lost = server
      ? await loseBegins(site, server, limited, { rounds, ledger }) : { runs: 0, refusedWrites: 0 }
    await site.stop()
    for (const exit of site.exits) ledger.fault(exit)
    const broken = [...ledger.broken].map(([what, count]) => (count === 1 ? what : `${what} (${String(count)} times)`))
    if (broken.length > 0) keepHistory(folder, chaos?.done ?? [])
    return {
      ...options, broken, ledger, faults: chaos?.done ?? [], runs, history, lost, left,
      callbacks: { heard: receiver.heard.size, repeated: receiver.repeated }, before, after,
    }
  } finally {
    client.close()
    site.remove()
    receiver.stop()
    await server?.stop()
    rmSync(folder, { recursive: true, force: true })
  }
}

/** Copies what the processes have written down to where somebody can read it. */
function keepHistory(folder: string, faults: Chaos['done']): void {
  const kept = mkdtempSync(join(tmpdir(), 'longhaul-soak-broken-'))
  cpSync(folder, kept, { recursive: true, filter: (path) => path === folder || path.endsWith('.log') })
  writeFileSync(join(kept, 'faults.log'), faults.map((fault) => `${JSON.stringify(fault)}\n`).join(''))
  console.log(`The history is in ${kept}`)
}
