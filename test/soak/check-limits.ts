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

/** Durations that the check needs, in milliseconds. */
export interface Durations {
  /** Length of the windows in which begins are counted. */
  readonly startsMs: number
  /** Time that a run has without a renewal. */
  readonly leaseMs: number
}

/** Rounding of two times that the engine reads from one clock, in milliseconds. */
const ROUNDING_MS = 1
/** More than the shortest way from an engine to a worker takes, in milliseconds. */
const WAY_MS = 50

/**
 * A run, from when its worker has got it until it asked for the last change that was made for it, but at
 * most until the end of its first lease, as nobody tells of renewals. In this time it had its place: its
 * lease had not ended, and if its task had, the change would have been refused.
 */
interface SureRun {
  readonly begin: Begin
  readonly until: number
}

/** The most runs of a pool that there were at the same time, and the most begins in a time. */
export interface Peaks {
  readonly running: readonly SureRun[]
  readonly ofOwner: readonly SureRun[]
  /** Those of one owner and name, by name. */
  readonly ofOwnerAndName: ReadonlyMap<string, readonly SureRun[]>
  readonly starts: readonly Begin[]
}

export function peaksOf(
  events: readonly HistoryEvent[], pool: string, { startsMs, leaseMs }: Durations,
): Peaks {
  const begins = ofKind(events, 'begin').filter((begin) => begin.pool === pool)
  const runs = sureRuns(events, begins, leaseMs)
  const ofOwnerAndName = new Map<string, readonly SureRun[]>()
  for (const [name, named] of groupBy(runs, ({ begin }) => begin.name)) {
    ofOwnerAndName.set(name, longest(byOwner(named).map(mostAtOnce)))
  }
  return {
    running: mostAtOnce(runs), ofOwner: longest(byOwner(runs).map(mostAtOnce)), ofOwnerAndName,
    starts: mostStarts(begins, startsMs - ROUNDING_MS),
  }
}

/** Finds runs above the limits of their pool. */
export function checkLimits(peaks: Peaks, limits: PoolLimits): Violation[] {
  const { running, ofOwner, ofOwnerAndName, starts } = peaks
  const violations: Violation[] = []
  const check = (what: string, events: readonly object[], max = Infinity): void => {
    if (events.length > max) violations.push({ what, events })
  }
  check('more than maxRunning run', running, limits.maxRunning)
  check('more than maxRunningPerOwner run', ofOwner, limits.maxRunningPerOwner)
  for (const [name, runs] of ofOwnerAndName) {
    check(`more than maxRunningPerOwner of ${name} run`, runs, limits.perOwnerOf[name])
  }
  check('more runs began than startsPer allows', starts, limits.startsPer.count)
  return violations
}

/** Finds runs that began in a paused pool. */
export function checkPauses(events: readonly HistoryEvent[]): Violation[] {
  const begins = groupBy(ofKind(events, 'begin'), ({ pool }) => pool)
  const beganIn = ({ pool, fromMs, untilMs }: Pause): Begin[] => {
    const [from, until] = [fromMs + ROUNDING_MS, untilMs - ROUNDING_MS]
    return (begins.get(pool) ?? []).filter(({ startedMs }) => startedMs > from && startedMs < until)
  }
  return ofKind(events, 'pause').flatMap((pause) => {
    const wrong = beganIn(pause)
    if (wrong.length === 0) return []
    return [{ what: 'a run began in a paused pool', events: [pause, ...wrong] }]
  })
}

function sureRuns(
  events: readonly HistoryEvent[], begins: readonly Begin[], leaseMs: number,
): SureRun[] {
  // Time of the monotonic clock at which that of the engine is 0, by the begin that came soonest.
  const engineZero = Math.min(...begins.map(({ at, startedMs }) => at - startedMs))
  const runOf = ({ task, lease }: Begin | Write): string => `${task} ${lease}`
  const writes = groupBy(ofKind(events, 'write'), runOf)
  return begins.flatMap((begin) => {
    const made = (writes.get(runOf(begin)) ?? []).filter(({ outcome }) => outcome === 'changed')
    const leaseEnd = engineZero + begin.startedMs + leaseMs - WAY_MS
    const until = Math.min(leaseEnd, Math.max(...made.map(({ at }) => at)))
    return until > begin.at ? [{ begin, until }] : []
  })
}

function byOwner(runs: readonly SureRun[]): (readonly SureRun[])[] {
  return [...groupBy(runs, ({ begin }) => begin.owner).values()]
}

function mostAtOnce(runs: readonly SureRun[]): readonly SureRun[] {
  let active: SureRun[] = []
  let most = active
  for (const run of [...runs].sort((one, other) => one.begin.at - other.begin.at)) {
    active = [...active.filter(({ until }) => until > run.begin.at), run]
    if (active.length > most.length) most = active
  }
  return most
}

/** Returns the most begins of which the last one came less than `ms` after the first one. */
function mostStarts(begins: readonly Begin[], ms: number): readonly Begin[] {
  const inOrder = [...begins].sort((one, other) => one.startedMs - other.startedMs)
  let active: Begin[] = []
  let most = active
  for (const begin of inOrder) {
    active = [...active.filter(({ startedMs }) => begin.startedMs - startedMs < ms), begin]
    if (active.length > most.length) most = active
  }
  return most
}

function longest<T>(lists: readonly (readonly T[])[]): readonly T[] {
  return lists.reduce((most, list) => (list.length > most.length ? list : most), [])
}
