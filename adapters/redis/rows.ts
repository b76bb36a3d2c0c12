import { LISTED_STATUSES, type RunLimits, type TaskQuery } from '../../src/engine/engine.js'
import { LeasedRun } from '../../src/engine/runs.js'
import {
  isVisibleChange, type Expected, type NewTask, type StoredTask, type TaskChange, type TaskDetails,
  type TaskRef, type TaskStatus,
} from '../../src/engine/task.js'
import type { Numeric } from './client.js'

/** A task in a reply: `m`, details and result. */
export type Row = readonly [m: string, details: string | null, result?: string | null]

/** Beginning of `m`, in the order of lua.ts. */
type Values = readonly [
  id: string, birth: string, key: string, owner: string, caller: string, name: string,
  status: TaskStatus, version: number, run: number, attempt: number, crashes: number,
  priority: number, createdAt: number, startAt: number, startedAt: number, runStartedAt: number,
  finishedAt: number, expiresAt: number, callbackRun: number, callbackAt: number, pool: string,
  lease: string, runPool: string,
]

/** @param sent - the change that was made, whose details and result are not in the reply */
export function toTask([m, details, result]: Row, sent: TaskChange = {}): StoredTask {
  const [
    id, birth, key, owner, caller, name, status, version, run, attempt, crashes, priority, createdAt,
    startAt, startedAt, runStartedAt, finishedAt, expiresAt, callbackRun, callbackAt, pool,
  ] = JSON.parse(m) as Values
  return {
    id, birth, key: key || undefined, owner: owner || undefined, caller: caller || undefined,
    name, pool, priority, status, version, run, attempt, crashes, createdAt,
    startAt: startAt || undefined, startedAt: startedAt || undefined,
    runStartedAt: runStartedAt || undefined, finishedAt: finishedAt || undefined,
    expiresAt, callbackRun, callbackAt: callbackAt || undefined,
    details: details === null ? sent.details ?? {} : JSON.parse(details) as TaskDetails,
    result: result ?? sent.result,
  }
}

/** A run in the reply to a turn. `startedBefore` is the start of the run that crashed, or -1. */
export type RunRow = readonly [
  m: string, details: string | null, result: string | null, input: string | null,
  checkpoint: string | null, startedBefore: Numeric,
]

/** @param leaseEnd - by the monotonic clock */
export function toRun(row: RunRow, leaseEnd: number): LeasedRun {
  const [m, details, result, input, checkpoint, startedBefore] = row
  const task = toTask([m, details, result])
  const lease = (JSON.parse(m) as Values)[21]
  const { version, run, attempt, crashes } = task
  const runStartedAt = Number(startedBefore)
  const crashed = runStartedAt < 0 ? undefined : {
    ...task, version: version - 1, run: run - 1, attempt: attempt - 1, crashes: crashes - 1, runStartedAt,
  }
  return new LeasedRun({ task, lease, input: input ?? '', checkpoint: checkpoint ?? undefined, crashed, leaseEnd })
}

/** Returns the member of run:{pool} that a run is. lua.ts has the same. */
export function runName({ task, lease }: LeasedRun): string {
  return [task.id, task.birth, lease, task.name, task.caller ?? ''].join('\0')
}

export function createArgument(task: NewTask): string {
  const head = JSON.stringify({ ...task, input: undefined, details: undefined })
  return `${head}\n${JSON.stringify(task.details)}\n${task.input.text}`
}

/** @param nonce - name of the call, which is the same if the client sends it again */
export function changeArguments(
  { id, birth }: TaskRef, expected: Expected, change: TaskChange, nonce: string,
): readonly [text: string, checkpoint: string] {
  const {
    status, details, result, delayMs, isGivenBack, limit, pool, keepMs, callbackMs, checkpoint, hasFiles,
    files,
  } = change
  const head = JSON.stringify({
    id, birth, expected, nonce, status, delayMs, isGivenBack, limit, pool, keepMs, callbackMs, hasFiles,
    files, isHidden: !isVisibleChange(change) || undefined,
    checkpoint: typeof checkpoint === 'string' ? 'new' : checkpoint === null ? 'none' : undefined,
  })
  const text = `${head}\n${details === undefined ? '' : JSON.stringify(details)}\n${result ?? ''}`
  return [text, checkpoint ?? '']
}

/** Returns limits as scripts read them. */
export function limitsArgument(limits: RunLimits | undefined): object | undefined {
  return limits && { ...limits, maxPerCallerOf: limits.maxPerCallerOf && Object.fromEntries(limits.maxPerCallerOf) }
}

export function pageArgument(query: TaskQuery): string {
  const { of, statuses = LISTED_STATUSES, names, from, to, order, limit, after, omit = [] } = query
  // Redis returns null for the field '', which no task has.
  const optional = (['details', 'result'] as const).map((name) => omit.includes(name) ? '' : name)
  const caller = of === 'all' || !('caller' in of) ? undefined : of.caller.toWellFormed()
  const owner = of === 'all' || 'caller' in of ? undefined : of.owner?.toWellFormed() ?? ''
  return JSON.stringify({
    owner, caller, kinds: statuses, names: names?.map((name) => name.toWellFormed()), from, to,
    isNewest: order === 'newest', limit,
    // Only the position: a caller may pass a whole task, whose JSON Redis may reject.
    after: after && { createdAt: after.createdAt, id: after.id }, fields: ['m', ...optional],
  })
}
