import {
  groupBy, ofKind, type Begin, type HistoryEvent, type Pause, type Violation, type Write,
} from './history.js'

/** Limits of what runs, over all processes. */
export interface PoolLimits {
  readonly maxRunning: number
  readonly maxRunningPerOwner: number
  /** `maxRunningPerOwner` of definitions, by name. */
  readonly perOwnerOf: Readonly<Record<string, number>>
  readonly startsPer: { readonly count: number, readonly ms: number }
}

/** Rounding of two times that the engine reads from one clock, in milliseconds. */
const ROUNDING_MS = 1

/** Finds runs above the limits of their pool. */
export function checkLimits(
  events: readonly HistoryEvent[], pool: string, limits: PoolLimits,
): Violation[] {
  const begins = ofKind(events, 'begin').filter((begin) => begin.pool === pool)
  const runs = sureRuns(events, begins)
  const violations = above(runs, limits.maxRunning, 'more than maxRunning run')
  for (const own of groupBy(runs, ({ begin }) => begin.owner).values()) {
    violations.push(...above(own, limits.maxRunningPerOwner, 'more than maxRunningPerOwner run'))
    for (const [name, named] of groupBy(own, ({ begin }) => begin.name)) {
      const max = limits.perOwnerOf[name] ?? Infinity
      violations.push(...above(named, max, `more than maxRunningPerOwner of ${name} run`))
    }
  }
  return [...violations, ...tooManyStarts(begins, limits.startsPer)]
}

/** Finds runs that began in a paused pool. */
export function checkPauses(events: readonly HistoryEvent[]): Violation[] {
  const begins = groupBy(ofKind(events, 'begin'), ({ pool }) => pool)
  const beganIn = ({ pool, fromMs, untilMs }: Pause): Begin[] => (begins.get(pool) ?? [])
    .filter(({ startedMs }) => startedMs > fromMs + ROUNDING_MS && startedMs < untilMs - ROUNDING_MS)
  return ofKind(events, 'pause').flatMap((pause) => {
    const wrong = beganIn(pause)
    if (wrong.length === 0) return []
    return [{ what: 'a run began in a paused pool', events: [pause, ...wrong] }]
  })
}

/**
 * A run, from when its worker has got it until it asked for the last change that was made for it. The run had
 * its task, and so its place, for all of this time: otherwise that change would have been refused.
 */
interface SureRun {
  readonly begin: Begin
  readonly until: number
}

function sureRuns(events: readonly HistoryEvent[], begins: readonly Begin[]): SureRun[] {
  const runOf = ({ task, lease }: Begin | Write): string => `${task} ${lease}`
  const writes = groupBy(ofKind(events, 'write'), runOf)
  return begins.flatMap((begin) => {
    const made = (writes.get(runOf(begin)) ?? []).filter(({ outcome }) => outcome === 'changed')
    const until = Math.max(...made.map(({ at }) => at))
    return until > begin.at ? [{ begin, until }] : []
  })
}

/** Returns the first moment at which more than `max` runs had their places, as a violation. */
function above(runs: readonly SureRun[], max: number, what: string): Violation[] {
  let active: SureRun[] = []
  for (const run of [...runs].sort((one, other) => one.begin.at - other.begin.at)) {
    active = active.filter(({ until }) => until > run.begin.at)
    active.push(run)
    if (active.length > max) return [{ what, events: active }]
  }
  return []
}

function tooManyStarts(
  begins: readonly Begin[], { count, ms }: PoolLimits['startsPer'],
): Violation[] {
  const inOrder = [...begins].sort((one, other) => one.startedMs - other.startedMs)
  for (const [at, { startedMs }] of inOrder.entries()) {
    const next = inOrder[at + count]
    if (!next || next.startedMs - startedMs >= ms - ROUNDING_MS) continue
    return [{ what: 'more runs began than startsPer allows', events: inOrder.slice(at, at + count + 1) }]
  }
  return []
}
