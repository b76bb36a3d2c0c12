import type { Mode } from './terms.js'

/** A task that a client was promised. */
export interface Promised {
  readonly id: string
  readonly owner: string
  readonly mode: Mode
  readonly path: string
  /** Which of the receiver's paths is to hear of it. */
  readonly hook: string | undefined
  cancelAsked: boolean
  /** Time at which it was final, by the clock of the engine, once that is known. */
  finishedMs?: number
  /** It ended `task_lost`, at least so it was said. */
  isLost?: boolean
  /** State and result, as somebody saw them once they were final. */
  final?: string
}

/**
 * What may be answered to each kind of request. 422 and 500 are the failures of work that is told
 * to fail, where its end is the answer.
 */
const EXPECTED: Readonly<Record<string, readonly number[]>> = {
  task: [202, 503],
  job: [202, 503],
  keyed: [202, 503],
  waiting: [200, 202, 422, 500, 503],
  direct: [200, 422, 500, 503],
  bulk: [201, 503],
  upload: [200, 503],
  cancel: [200, 409, 503],
  fair: [202, 503],
  limited: [202, 503],
  limitedDirect: [200, 503],
  unique: [202, 503],
}

/** What was promised, and what was seen; kept apart from everything under test. */
export class Ledger {
  readonly promised = new Map<string, Promised>()
  /** Ids of uploads and batches that were answered 200. */
  readonly records = new Set<number>()
  readonly keys = new Map<string, string>()
  readonly broken = new Map<string, number>()
  readonly statuses = new Map<string, number>()
  /**
   * Submissions that got no 202: refused, without any answer, or answered with their result. Their
   * record may be there all the same.
   */
  unsure = 0
  submissions = 0
  slowestMs = 0

  promise(task: Promised): Promised {
    const known = this.promised.get(task.id)
    if (known) return known
    this.promised.set(task.id, task)
    return task
  }

  /** One key, one task, over all processes and retries. */
  key(key: string, id: string): void {
    const known = this.keys.get(key)
    if (known !== undefined && known !== id)
      this.fault('one Idempotency-Key made two tasks', `${key}: ${known} and ${id}`)
    this.keys.set(key, id)
  }

  /** What is final never changes. */
  see(task: Promised, state: string, result: unknown): void {
    if (state !== 'completed' && state !== 'failed' && state !== 'cancelled') return
    const final = `${state} ${JSON.stringify(result)}`
    if (task.final !== undefined && task.final !== final)
      this.fault('a final state changed', `${task.id}: ${task.final} became ${final}`)
    task.final = final
  }

  answered(kind: string, status: number | string, ms: number, ceilingMs: number): void {
    const name = `${kind} ${String(status)}`
    this.statuses.set(name, (this.statuses.get(name) ?? 0) + 1)
    this.slowestMs = Math.max(this.slowestMs, ms)
    if (ms > ceilingMs) this.fault(`${name} came after ${String(Math.round(ms / 1000))} s`)
    if (typeof status === 'number' && !(EXPECTED[kind] ?? [200, 503]).includes(status))
      this.fault(`an answer that nobody expects: ${name}`)
  }

  /** Says at once where to look. */
  fault(what: string, where = ''): void {
    console.log(new Date().toISOString(), what, where)
    this.broken.set(what, (this.broken.get(what) ?? 0) + 1)
  }
}
