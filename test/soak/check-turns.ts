import { ofKind, type Begin, type HistoryEvent, type Violation } from './history.js'

/** The first task of an owner, and the tasks of others that began while it waited. */
export interface Newcomer {
  readonly task: Begin
  readonly others: readonly Begin[]
}

/** Returns the first tasks of all owners in a pool. First runs count, by the clock of the engine. */
export function newcomersOf(events: readonly HistoryEvent[], pool: string): Newcomer[] {
  const begins = ofKind(events, 'begin').filter((begin) => begin.pool === pool)
  const byTask = new Map(begins.map((begin) => [begin.task, begin]))
  const tasks = [...byTask.values()].sort((one, other) => one.createdMs - other.createdMs)
  const first = new Map<string, Begin>()
  for (const task of tasks) if (!first.has(task.owner)) first.set(task.owner, task)
  return [...first.values()].map((task) => ({
    task,
    others: tasks.filter(({ firstMs }) => firstMs > task.createdMs && firstMs < task.firstMs),
  }))
}

/**
 * Finds newcomers that waited for too many others. Owners take turns, and a turn has one task of each
 * owner. So a newcomer begins after one task of each owner that waits, and after as many more as
 * there are places, which may have been taken in the meantime.
 */
export function checkTurns(
  events: readonly HistoryEvent[], pool: string, places: number,
): Violation[] {
  return newcomersOf(events, pool).flatMap(({ task, others }) => {
    const owners = new Set(others.map(({ owner }) => owner)).size
    if (others.length <= owners + places) return []
    const what = `a new owner waited for more than a turn and ${String(places)} places`
    return [{ what, events: [task, ...others] }]
  })
}
