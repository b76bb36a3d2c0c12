import { setTimeout as sleep } from 'node:timers/promises'
import type { Pause } from './history.js'
import type { Random } from './random.js'
import type { Site } from './site.js'

/** Pauses a pool, or ends the pause. Tries until that is done. */
export async function setPaused(site: Site, pool: string, isPaused: boolean): Promise<void> {
  await insist(site, isPaused ? 'PUT' : 'DELETE', `/pauses/${pool}`)
}

/** Pauses a pool at random, until `signal` aborts. Returns when it was surely paused. */
export async function pauseAtRandom(
  site: Site, pool: string, random: Random, signal: AbortSignal,
): Promise<Pause[]> {
  const pauses: Pause[] = []
  while (!signal.aborted) {
    await sleep(random.between(4000, 15_000), undefined, { signal }).catch(() => undefined)
    if (signal.aborted) break
    await setPaused(site, pool, true)
    const fromMs = await nowOf(site)
    await sleep(random.between(500, 4000))
    const untilMs = await nowOf(site)
    await setPaused(site, pool, false)
    pauses.push({ kind: 'pause', pool, fromMs, untilMs })
  }
  return pauses
}

/** Returns the time of the clock of the engine. */
async function nowOf(site: Site): Promise<number> {
  const { now } = await insist(site, 'GET', '/now') as { readonly now: number }
  return now
}

/** Asks the web processes in turn, until one of them has done it. */
async function insist({ webs }: Site, method: string, path: string): Promise<unknown> {
  for (let tried = 0; ; tried++) {
    try {
      const url = (webs[tried % webs.length]?.url ?? '') + path
      const response = await fetch(url, { method, signal: AbortSignal.timeout(10_000) })
      if (response.ok) return await response.json()
      await response.body?.cancel()
    } catch {
      // The process was killed.
    }
    await sleep(200)
  }
}
