import { LISTED_STATUSES, type TaskQuery } from '../../src/engine/engine.js'
import {
  isVisibleChange, type Expected, type NewTask, type StoredTask, type TaskChange, type TaskDetails,
  type TaskRef, type TaskStatus,
} from '../../src/engine/task.js'
import type { ShareLimits } from '../../src/stores/share-limits.js'

/** A task in a reply: `m`, details and result. */
export type Row = readonly [m: string, details: string | null, result?: string | null]

/** Beginning of `m`, in the order of lua.ts. */
type Values = readonly [
  id: string, birth: string, key: string, owner: string, caller: string, name: string,
  status: TaskStatus, version: number, run: number, attempt: number, crashes: number,
  priority: number, createdAt: number, startAt: number, startedAt: number, runStartedAt: number,
  finishedAt: number, expiresAt: number, callbackRun: number, callbackAt: number, pool: string,
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

/** Returns the task before its run began, if the run before crashed. */
export function crashedBefore(runStartedAt: number, task: StoredTask): StoredTask | undefined {
  if (runStartedAt < 0) return undefined
  const { version, run, attempt, crashes } = task
  return {
    ...task, version: version - 1, run: run - 1, attempt: attempt - 1, crashes: crashes - 1,
    runStartedAt,
  }
}

export function createArgument(task: NewTask): string {
  const {
    id, birth, key, owner, caller, name, pool, priority, input, details, start, keepMs, hasFiles, limit,
  } = task
  // Redis rejects JSON with half of a surrogate pair.
  const head = {
    id, birth, key: key?.toWellFormed(), owner: owner?.toWellFormed(), caller: caller?.toWellFormed(),
    name, pool, priority, start, keepMs, hasFiles, limit,
  }
  return `${JSON.stringify(head)}\n${JSON.stringify(details)}\n${input.text}`
}

export function changeArguments(
  { id, birth }: TaskRef, expected: Expected, change: TaskChange, nonce: string, share: ShareLimits,
): string[] {
  const {
    status, details, result, delayMs, isGivenBack, limit, pool, keepMs, callbackMs, checkpoint,
    hasFiles, files,
  } = change
  const { maxEntries, maxBytes } = share
  const head = JSON.stringify({
    id, birth, expected, nonce, maxEntries, maxBytes, status, delayMs, isGivenBack, limit, pool, keepMs,
    callbackMs, hasFiles, files, isHidden: !isVisibleChange(change) || undefined,
    checkpoint: checkpoint === null ? null : undefined,
  })
  const text = `${head}\n${details === undefined ? '' : JSON.stringify(details)}\n${result ?? ''}`
  return typeof checkpoint === 'string' ? [text, checkpoint] : [text]
}

export function pageArgument(query: TaskQuery): string {
  const { of, statuses = LISTED_STATUSES, names, from, to, order, limit, after, omit = [] } = query
  // Redis returns null for the field '', which no task has.
  const optional = (['details', 'result'] as const).map((name) => omit.includes(name) ? '' : name)
  const owner = of === 'all' ? undefined : of.owner?.toWellFormed() ?? ''
  return JSON.stringify({
    owner, kinds: statuses, names: names?.map((name) => name.toWellFormed()), from, to,
    isNewest: order === 'newest', limit,
    // Only the position: a caller may pass a whole task, whose JSON Redis may reject.
    after: after && { createdAt: after.createdAt, id: after.id }, fields: ['m', ...optional],
  })
}
