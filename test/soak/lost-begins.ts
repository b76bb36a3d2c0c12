import { checkFences } from './check-fences.js'
import { tell } from './check-history.js'
import { countBegun, seeFinal } from './check-places.js'
import { groupBy, monotonicMs, ofKind, type Begin, type Write } from './history.js'
import type { Ledger } from './ledger.js'
import type { LimitedLoad } from './limited-load.js'
import { setPaused } from './pauses.js'
import type { SoakServer } from './server.js'
import type { Site } from './site.js'
import { FAIR_PLACES } from './terms.js'

/** As many as one worker has places for. */
const TASKS = FAIR_PLACES
/** Duration of a run, in milliseconds: it goes on while the server has forgotten it. */
const RUN_MS = 3000
/** Time until all have begun, in milliseconds. */
const BEGIN_MS = 2500

export interface LostBegins {
  /** Number of runs that began twice. */
  readonly runs: number
  /** Number of changes that the first owners of these runs asked for in vain. */
  readonly refusedWrites: number
}

/**
 * The server loses begins that it has acknowledged, as in a fail-over to a replica that lags, and
 * hands out the same runs again. The worker that had them is frozen until the other one has some of
 * them. Two runs of one number must not both write from then on.
 */
export async function loseBegins(
  site: Site, server: SoakServer, load: LimitedLoad,
  { rounds, ledger }: { readonly rounds: number, readonly ledger: Ledger },
): Promise<LostBegins> {
  const from = monotonicMs()
  for (let round = 0; round < rounds; round++) {
    await setPaused(site, 'fair', true)
    const owners = Array.from({ length: TASKS }, (_, at) => `lost-${String(at)}`)
    const tasks = await Promise.all(owners.map((owner) => (
      load.submitSurely('fair', owner, { ms: RUN_MS })
    )))
    const lose = await server.mayLose()
    await setPaused(site, 'fair', false)
    const begun = await countBegun(site, tasks, TASKS, BEGIN_MS)
    if (begun === 0) ledger.fault('no task began that its server was to forget')
    const owner = ofKind(site.history(), 'begin').at(-1)?.pid
    const first = site.workers.find(({ pid }) => pid === owner)
    await lose(() => first?.signal('SIGSTOP'))
    // The server has lost that as well.
    await setPaused(site, 'fair', false)
    await countBegun(site, tasks, TASKS, BEGIN_MS)
    first?.signal('SIGCONT')
    for (const task of tasks) await seeFinal(site, task, ledger)
  }
  const events = site.history().filter(({ at }) => at >= from)
  tell(ledger, checkFences(events))
  const runs = groupBy(ofKind(events, 'begin'), ({ task, run }) => `${task} ${String(run)}`)
  const twice = [...runs.values()].filter(({ length }) => length > 1)
  if (twice.length === 0) ledger.fault('no begin was lost')
  const lost = new Set(twice.flatMap((begins) => begins.slice(0, -1).map(beginOf)))
  const late = ofKind(events, 'write').filter((write) => lost.has(beginOf(write)))
  const refused = late.filter(({ outcome }) => outcome === 'refused')
  return { runs: twice.length, refusedWrites: refused.length }
}

function beginOf({ task, lease }: Begin | Write): string {
  return `${task} ${lease}`
}
