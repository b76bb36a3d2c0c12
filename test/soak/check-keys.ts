import {
  groupBy, ofKind, type Begin, type HistoryEvent, type Submission, type Violation,
} from './history.js'

/** A task with a business key, from its creation until it was final. */
export interface KeyedTask {
  readonly task: string
  readonly key: string
  readonly createdMs: number
  /** Absent if the task never ended. */
  readonly finishedMs?: number | undefined
}

/** Finds business keys that two unfinished tasks had at the same time. */
export function checkKeys(tasks: readonly KeyedTask[]): Violation[] {
  return [...groupBy(tasks, ({ key }) => key).values()].flatMap((group) => {
    const inOrder = group.sort((one, other) => one.createdMs - other.createdMs)
    return inOrder.flatMap((task, at) => {
      const isOpen = ({ finishedMs = Infinity }: KeyedTask): boolean => finishedMs > task.createdMs
      const before = inOrder.slice(0, at).find(isOpen)
      const what = 'two unfinished tasks have one business key'
      return before ? [{ what, events: [before, task] }] : []
    })
  })
}

/** Finds runs without the input of the last submission that was acknowledged for their task. */
export function checkInputs(events: readonly HistoryEvent[]): Violation[] {
  const submissions = ofKind(events, 'submission')
  const bySubmission = groupBy(submissions, ({ n }) => String(n))
  const byTask = groupBy(submissions, ({ task = '' }) => task)
  const violations: Violation[] = []
  for (const [task, begins] of groupBy(ofKind(events, 'begin'), ({ task }) => task)) {
    if (!byTask.has(task)) continue
    for (const begin of begins) {
      const own = bySubmission.get(String(begin.n)) ?? []
      const given = (byTask.get(task) ?? []).filter(isAccepted)
      violations.push(...wrongInput(begin, own, given))
    }
    const [first] = begins
    const other = begins.find(({ n }) => n !== first?.n)
    const what = 'two runs of a task have two inputs'
    if (first && other) violations.push({ what, events: [first, other] })
  }
  return violations
}

/**
 * @param own - the submissions of the input that runs
 * @param given - the submissions that created the task or replaced its input
 */
function wrongInput(
  begin: Begin, own: readonly Submission[], given: readonly Submission[],
): Violation[] {
  if (own.length > 0 && own.every((each) => isAnswered(each) && !isAccepted(each))) {
    return [{ what: 'a run has an input that was not accepted', events: [...own, begin] }]
  }
  const accepted = own.find(isAccepted)
  const newer = given.find(({ n, version = 0 }) => {
    if (accepted) return version > (accepted.version ?? 0)
    // The submission of the input has no response. That of the last version before the begin has.
    return n !== begin.n && begin.run === 1 && version === begin.version - 1
  })
  if (!newer) return []
  return [{ what: 'a run has an input that was replaced', events: [...own, newer, begin] }]
}

function isAccepted({ outcome }: Submission): boolean {
  return outcome === 'created' || outcome === 'replaced'
}

function isAnswered({ outcome }: Submission): boolean {
  return outcome !== 'unknown'
}
