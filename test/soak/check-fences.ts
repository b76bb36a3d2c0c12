import {
  groupBy, ofKind, type Begin, type HistoryEvent, type Violation, type Write,
} from './history.js'

/**
 * Finds writes of runs that no longer owned their task. A change that was made for a run was made
 * after the run asked for it. So it is wrong if a later run had begun before.
 */
export function checkFences(events: readonly HistoryEvent[]): Violation[] {
  const writes = groupBy(ofKind(events, 'write'), ({ task }) => task)
  const violations: Violation[] = []
  for (const [task, begins] of groupBy(ofKind(events, 'begin'), ({ task }) => task)) {
    for (const write of writes.get(task) ?? []) {
      const own = begins.find(({ lease }) => lease === write.lease)
      if (write.outcome !== 'changed' || !own) continue
      const later = begins.find((begin) => isLater(begin, own) && begin.at < write.at)
      if (!later) continue
      const what = 'a run wrote after a later one had begun'
      violations.push({ what, events: [own, later, write] })
    }
  }
  return violations
}

/**
 * Finds runs that had the same token or number, and runs that did not start from the last checkpoint.
 * Both are right only if the server has lost what it had acknowledged.
 */
export function checkBegins(events: readonly HistoryEvent[]): Violation[] {
  const all = ofKind(events, 'write').filter(({ checkpoint }) => checkpoint !== undefined)
  const saves = groupBy(all, ({ task }) => task)
  const violations: Violation[] = []
  for (const [task, begins] of groupBy(ofKind(events, 'begin'), ({ task }) => task)) {
    const inOrder = begins.sort((one, other) => one.run - other.run)
    for (const [at, begin] of inOrder.entries()) {
      const before = inOrder.slice(0, at)
      const twin = before.find(({ run, lease }) => run === begin.run || lease === begin.lease)
      const twins = 'two runs have one number or token'
      if (twin) violations.push({ what: twins, events: [twin, begin] })
      const leases = new Set(before.map(({ lease }) => lease))
      const earlier = (saves.get(task) ?? []).filter(({ lease }) => leases.has(lease))
      if (startsRight(begin, earlier)) continue
      const what = 'a run did not start from the last checkpoint'
      violations.push({ what, events: [...before, ...earlier, begin] })
    }
  }
  return violations
}

function isLater(one: Begin, other: Begin): boolean {
  return one.run > other.run || (one.run === other.run && one.at > other.at)
}

/**
 * `saves` are those of all earlier runs. One whose outcome is unknown may count. So may one that
 * nobody tells of, because its process has died in the meantime.
 */
function startsRight({ checkpoint }: Begin, saves: readonly Write[]): boolean {
  const isUntold = !saves.some((save) => save.checkpoint === checkpoint)
  if (checkpoint !== undefined && isUntold) return true
  const inOrder = saves.filter(({ outcome }) => outcome !== 'refused')
    .sort((one, other) => one.at - other.at)
  const last = inOrder.findLastIndex(({ outcome }) => outcome === 'changed')
  const possible = inOrder.slice(Math.max(last, 0)).map((save) => save.checkpoint)
  if (last === -1) possible.push(undefined)
  return possible.includes(checkpoint)
}
