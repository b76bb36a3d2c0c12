import { setTimeout as sleep } from 'node:timers/promises'
import { face } from './check.js'
import type { Ledger, Promised } from './ledger.js'
import type { LimitedLoad } from './limited-load.js'
import type { Site } from './site.js'
import { LIMITED_OWNERS, LIMITED_PER_OWNER, LIMITS } from './terms.js'

/** Time in which tasks begin whose places are free, in milliseconds. */
const BEGIN_MS = 30_000
/** Time in which these tasks end, in milliseconds. */
const END_MS = 60_000
/** Longer than any of these tasks is waited for. */
const LONG_MS = 600_000

/**
 * Finds places that no run has and that are not free. The tasks of so many owners that their shares
 * are all places of the pool must run at the same time. Each owner is among them once. A cancel ends
 * them.
 */
export async function checkPlaces(site: Site, load: LimitedLoad, ledger: Ledger): Promise<void> {
  const owners = LIMITS.maxRunning / LIMITED_PER_OWNER
  for (const chosen of [LIMITED_OWNERS.slice(0, owners), LIMITED_OWNERS.slice(-owners)]) {
    const each = chosen.flatMap((owner) => Array<string>(LIMITED_PER_OWNER).fill(owner))
    const tasks = await Promise.all(each.map((owner) => (
      load.submitSurely('limited', owner, { ms: LONG_MS })
    )))
    const begun = await countBegun(site, tasks, tasks.length, BEGIN_MS)
    if (begun < tasks.length) {
      ledger.fault(`only ${String(begun)} of ${String(tasks.length)} places are free`)
    }
    await Promise.all(tasks.map((task) => load.cancelSurely(task)))
    for (const task of tasks) await seeFinal(site, task, ledger)
  }
}

/** Waits until a task is final, and tells the ledger. */
export async function seeFinal(site: Site, task: Promised, ledger: Ledger): Promise<void> {
  const { status, result } = await face(site.webs[0]?.url ?? '', task, performance.now() + END_MS)
  ledger.see(task, status, result)
  const wanted = task.cancelAsked ? 'cancelled' : 'completed'
  if (status !== wanted) ledger.fault(`a task that was to be ${wanted} is ${status}`, task.id)
}

/** Waits until so many tasks have begun, or the time is over. Returns how many have. */
export async function countBegun(
  site: Site, tasks: readonly Promised[], wanted: number, ms: number,
): Promise<number> {
  const end = performance.now() + ms
  for (;;) {
    const begun = await Promise.all(tasks.map((task) => hasBegun(site, task)))
    const count = begun.filter((has) => has).length
    if (count >= wanted || performance.now() > end) return count
    await sleep(100)
  }
}

async function hasBegun(site: Site, { path, owner }: Promised): Promise<boolean> {
  const headers = { 'x-owner': owner, 'connection': 'close' }
  const response = await fetch((site.webs[0]?.url ?? '') + path, { headers })
  const { startedAt, finishedAt } = await response.json() as Record<string, string | undefined>
  return startedAt !== undefined && finishedAt === undefined
}
