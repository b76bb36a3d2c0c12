/**
 * History of what the engines of all processes did. Each process writes its events down at once, in a
 * file that outlives it. `at` is a time of the monotonic clock, which all processes of a machine
 * share, in milliseconds. The other times are those of the clock of the engine.
 */
export type HistoryEvent = Recorded | Pause

/** An event that a process has recorded. */
export type Recorded = Begin | Write | Submission

/** A worker has got a run that its engine has begun. The begin was before `at`. */
export interface Begin {
  readonly kind: 'begin'
  readonly at: number
  /** Process of the worker. */
  readonly pid: number
  readonly task: string
  /** Token of this begin of the task. The runs that a worker takes together may have one. */
  readonly lease: string
  /** Number of the run. */
  readonly run: number
  /** Version of the task after the begin. */
  readonly version: number
  readonly name: string
  readonly pool: string
  readonly owner: string
  /** Names the submission whose input runs. */
  readonly n: number
  /** Checkpoint that the run starts from. */
  readonly checkpoint?: string | undefined
  readonly createdMs: number
  /** Start of the first run of the task. */
  readonly firstMs: number
  /** Start of this run. */
  readonly startedMs: number
}

/** A change that a run has asked for at `at`. If it was made, it was made later than `at`. */
export interface Write {
  readonly kind: 'write'
  readonly at: number
  readonly task: string
  readonly lease: string
  /** `unknown`: the call failed, and the change may have been made. */
  readonly outcome: 'changed' | 'refused' | 'unknown'
  /** New checkpoint, if there is one. */
  readonly checkpoint?: string | undefined
}

/** A call of `create` with a business key. Not recorded if the process has died during the call. */
export interface Submission {
  readonly kind: 'submission'
  readonly at: number
  readonly key: string
  /** Names the submission. */
  readonly n: number
  readonly outcome: 'created' | 'replaced' | 'exists' | 'refused' | 'unknown'
  /** Task that was created, or that has the key. */
  readonly task?: string | undefined
  /** Version of the task after the call. */
  readonly version?: number | undefined
}

/** A pool was paused at least from `fromMs` to `untilMs`. */
export interface Pause {
  readonly kind: 'pause'
  readonly pool: string
  readonly fromMs: number
  readonly untilMs: number
}

/** What the history proves to be wrong. */
export interface Violation {
  readonly what: string
  /** The events that prove it. */
  readonly events: readonly object[]
}

/** Returns the time of the monotonic clock, in milliseconds. */
export function monotonicMs(): number {
  return Number(process.hrtime.bigint()) / 1e6
}

/** Returns the events of one kind. */
export function ofKind<K extends HistoryEvent['kind']>(
  events: readonly HistoryEvent[], kind: K,
): Extract<HistoryEvent, { kind: K }>[] {
  return events.filter((event): event is Extract<HistoryEvent, { kind: K }> => event.kind === kind)
}

export function groupBy<T>(items: Iterable<T>, keyOf: (item: T) => string): Map<string, T[]> {
  const groups = new Map<string, T[]>()
  for (const item of items) {
    const key = keyOf(item)
    const group = groups.get(key)
    if (group) group.push(item)
    else groups.set(key, [item])
  }
  return groups
}
