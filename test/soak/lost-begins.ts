import { checkFences } from './check-fences.js'
import { tell } from './check-history.js'
import { countBegun, seeFinal } from './check-places.js'
import { groupBy, ofKind } from './history.js'
import type { Ledger } from './ledger.js'
import type { LimitedLoad } from './limited-load.js'
import { setPaused } from './pauses.js'
import type { SoakServer } from './server.js'
import type { Site } from './site.js'
import { FAIR_PLACES, WORKERS } from './terms.js'

const TASKS = 10
/** Duration of a run, in milliseconds: it goes on while the server has forgotten it. */
const RUN_MS = 3000
/** Time until so many have begun as there are places, in milliseconds. */
const BEGIN_MS = 2000

/**
 * The server loses begins that it has acknowledged, as in a fail-over to a replica that lags, and hands out
 * the same runs again. Two runs of one number must not both write from then on. Returns the number of runs
 * whose begin was lost.
 */
export async function loseBegins(
  site: Site, server: SoakServer, load: LimitedLoad, { rounds, ledger }: { rounds: number, ledger: Ledger },
): Promise<number> {
  const from = site.history().length
  for (let round = 0; round < rounds; round++) {
    await setPaused(site, 'fair', true)
    const owners = Array.from({ length: TASKS }, (_, at) => `lost-${String(at)}`)
    const submitted = await Promise.all(owners.map((owner) => load.submit('fair', owner, { ms: RUN_MS })))
    const tasks = submitted.filter((task) => task !== undefined)
    const lose = await server.mayLose()
    await setPaused(site, 'fair', false)
    const begun = await countBegun(site, tasks, WORKERS * FAIR_PLACES, BEGIN_MS)
    if (begun === 0) ledger.fault('no task began that its server was to forget')
    await lose()
    // The server has lost that as well.
    await setPaused(site, 'fair', false)
    for (const task of tasks) await seeFinal(site, task, ledger)
  }
  const events = site.history().slice(from)
  tell(ledger, checkFences(events))
  const runs = groupBy(ofKind(events, 'begin'), ({ task, run }) => `${task} ${String(run)}`)
  const lost = [...runs.values()].filter(({ length }) => length > 1).length
  if (lost === 0) ledger.fault('no begin was lost')
  return lost
}
