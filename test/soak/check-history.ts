import { checkBegins, checkFences } from './check-fences.js'
import { checkInputs, checkKeys, type KeyedTask } from './check-keys.js'
import { checkLimits, checkPauses, peaksOf, type Peaks } from './check-limits.js'
import { checkTurns, newcomersOf } from './check-turns.js'
import { face } from './check.js'
import { ofKind, type HistoryEvent, type Violation } from './history.js'
import type { Ledger } from './ledger.js'
import type { Site } from './site.js'
import { FAIR_PLACES, LEASE_MS, LIMITED_PER_OWNER, LIMITS, WORKERS } from './terms.js'

/** How much the checks of a history had to look at. */
export interface HistoryCounts {
  readonly begins: number
  readonly writes: number
  readonly refusedWrites: number
  readonly limitedBegins: number
  readonly peaks: Peaks
  readonly pauses: number
  readonly newcomers: number
  /** Most tasks of others that began while a newcomer waited. */
  readonly mostOthers: number
  readonly keyedTasks: number
  readonly replacements: number
}

/** Checks what the engines did against their contract, and tells the ledger of what is wrong. */
export async function checkHistory(
  events: readonly HistoryEvent[], site: Site, ledger: Ledger,
): Promise<HistoryCounts> {
  const keyed = await keyedTasks(events, site, ledger)
  const peaks = peaksOf(events, 'limited', { startsMs: LIMITS.startsPer.ms, leaseMs: LEASE_MS })
  const limits = { ...LIMITS, perOwnerOf: { limited: LIMITED_PER_OWNER } }
  tell(ledger, [
    ...checkFences(events), ...checkBegins(events), ...checkLimits(peaks, limits),
    ...checkPauses(events), ...checkTurns(events, 'fair', WORKERS * FAIR_PLACES),
    ...checkKeys(keyed), ...checkInputs(events),
  ])
  const begins = ofKind(events, 'begin')
  const writes = ofKind(events, 'write')
  const submissions = ofKind(events, 'submission')
  const newcomers = newcomersOf(events, 'fair')
  return {
    begins: begins.length, writes: writes.length,
    refusedWrites: writes.filter(({ outcome }) => outcome === 'refused').length,
    limitedBegins: begins.filter(({ pool }) => pool === 'limited').length,
    peaks, pauses: ofKind(events, 'pause').length, newcomers: newcomers.length,
    mostOthers: Math.max(0, ...newcomers.map(({ others }) => others.length)),
    keyedTasks: keyed.length,
    replacements: submissions.filter(({ outcome }) => outcome === 'replaced').length,
  }
}

export function tell(ledger: Ledger, violations: readonly Violation[]): void {
  for (const { what, events } of violations) {
    ledger.fault(what, events.map((event) => `\n  ${JSON.stringify(event)}`).join(''))
  }
}

/** Returns the tasks whose business key is known, with the times that a web process tells. */
async function keyedTasks(
  events: readonly HistoryEvent[], site: Site, ledger: Ledger,
): Promise<KeyedTask[]> {
  const keys = new Map<string, string>()
  for (const { task, key } of ofKind(events, 'submission')) {
    if (task !== undefined) keys.set(task, key)
  }
  const owners = new Map(ofKind(events, 'begin').map(({ task, owner }) => [task, owner]))
  for (const { id, owner } of ledger.promised.values()) owners.set(id, owner)
  const tasks: KeyedTask[] = []
  for (const [task, key] of keys) {
    const where = { path: `/tasks/${task}`, owner: owners.get(task) ?? '' }
    const end = performance.now() + 10_000
    const { createdAt = '', finishedAt } = await face(site.webs[0]?.url ?? '', where, end)
    const finishedMs = finishedAt === undefined ? undefined : Date.parse(finishedAt)
    tasks.push({ task, key, createdMs: Date.parse(createdAt), finishedMs })
  }
  return tasks
}
