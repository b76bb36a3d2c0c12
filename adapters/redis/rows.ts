import type { ListedStatus, TaskQuery } from '../../src/engine/engine.js'
import {
  isVisibleChange, type Expected, type NewTask, type StoredTask, type TaskChange, type TaskDetails,
  type TaskStatus,
} from '../../src/engine/task.js'

type Text = string | null
type Argument = string | number

export type Row = readonly [string, string, string, Text, Text, Text, string, string, Text]

/** `m` of a row: what changes, in the order that lua.ts names. */
type Mutable = readonly [
  status: TaskStatus, version: number, run: number, attempt: number, crashes: number,
  priority: number, createdAt: number, startAt: number, startedAt: number, runStartedAt: number,
  finishedAt: number, expiresAt: number, callbackRun: number, callbackAt: number, pool: string,
  nonce: string, worker: string, takenBy: string, files: number, fileBytes: number,
  bytes: number, kind: string, placePool: string, runStartedBefore: number, countedAs: string,
]

export function toTask(row: Row): StoredTask {
  return taskOf(row, JSON.parse(row[1]) as Mutable)
}

/** Returns the task of a row whose run has just begun, and the task before a run that crashed. */
export function toBegun(row: Row): { readonly task: StoredTask, readonly crashed?: StoredTask } {
  const m = JSON.parse(row[1]) as Mutable
  const task = taskOf(row, m)
  const { version, run, attempt, crashes } = task
  const runStartedAt = m[23]
  if (runStartedAt < 0) return { task }
  return {
    task,
    crashed: {
      ...task, version: version - 1, run: run - 1, attempt: attempt - 1, crashes: crashes - 1,
      runStartedAt,
    },
  }
}

function taskOf(
  [row, , birth, key, owner, caller, name, details, result]: Row, m: Mutable,
): StoredTask {
  const [
    status, version, run, attempt, crashes, priority, createdAt, startAt, startedAt, runStartedAt,
    finishedAt, expiresAt, callbackRun, callbackAt, pool,
  ] = m
  const end = row.indexOf('~')
  return {
    id: end < 0 ? row : row.slice(0, end), birth,
    key: key ?? undefined, owner: owner ?? undefined, caller: caller ?? undefined,
    name, pool, priority, status, version, run, attempt, crashes, createdAt,
    startAt: startAt || undefined, startedAt: startedAt || undefined,
    runStartedAt: runStartedAt || undefined, finishedAt: finishedAt || undefined,
    expiresAt, callbackRun, callbackAt: callbackAt || undefined,
    details: JSON.parse(details) as TaskDetails, result: result ?? undefined,
  }
}

export function createArguments(task: NewTask): Argument[] {
  const {
    id, birth, key = '', owner = '', caller = '', name, pool, priority, input, details, start,
    keepMs, hasFiles = false, limit,
  } = task
  const [kind, ms] = start === undefined
    ? ['', 0]
    : 'at' in start ? ['at', Math.ceil(start.at)] : ['delay', Math.ceil(start.delayMs)]
  return [
    id, birth, key, owner, caller, name, pool, priority, input.text, JSON.stringify(details),
    kind, ms, Math.ceil(keepMs), hasFiles ? 1 : 0,
    ...limit ? [limit.group, limit.max] : [],
  ]
}

export function expectedArguments(expected: Expected): [string, number] {
  if ('version' in expected) return ['version', expected.version]
  return 'run' in expected ? ['run', expected.run] : ['callback', expected.callbackRun]
}

export function changeArguments(change: TaskChange): Argument[] {
  const {
    status, details, result, delayMs, isGivenBack, limit, pool, keepMs, callbackMs, checkpoint,
    hasFiles, files,
  } = change
  const pairs: Argument[] = []
  const add = (name: string, value: Argument | undefined): void => {
    if (value !== undefined) pairs.push(name, value)
  }
  add('status', status)
  add('details', details && JSON.stringify(details))
  add('result', result)
  add('delayMs', delayMs && Math.ceil(delayMs))
  add('isGivenBack', isGivenBack === true ? 1 : undefined)
  add('group', limit?.group)
  add('max', limit?.max)
  add('pool', pool)
  add('keepMs', keepMs && Math.ceil(keepMs))
  if (callbackMs === null) add('noCallback', 1)
  else add('callbackMs', callbackMs && Math.ceil(callbackMs))
  if (checkpoint === null) add('noCheckpoint', 1)
  else add('checkpoint', checkpoint)
  add('hasFiles', hasFiles === undefined ? undefined : Number(hasFiles))
  add('fileBytes', files?.bytes)
  add('maxFileBytes', files?.max)
  add('isHidden', isVisibleChange(change) ? undefined : 1)
  return pairs
}

const KINDS = {
  scheduled: 's', queued: 'q', processing: 'p', completed: 'c', failed: 'f', cancelled: 'x',
} satisfies Record<ListedStatus, string>

export function pageArguments(query: TaskQuery): Argument[] {
  const { of, statuses, names = [], from = -Infinity, to = Infinity, order, limit, after } = query
  const isNewest = order === 'newest'
  const low = !isNewest && after ? Math.max(from, after.createdAt) : from
  const first = low === -Infinity ? '-inf' : String(low)
  const isAfterLower = isNewest && after !== undefined && after.createdAt < to
  const last = isAfterLower ? String(after.createdAt) : to === Infinity ? '+inf' : `(${String(to)}`
  const kinds = statuses === undefined
    ? Object.values(KINDS) : statuses.map((status) => KINDS[status])
  return [
    of === 'all' ? 'all' : `=${of.owner ?? ''}`, ...isNewest ? [last, first] : [first, last],
    isNewest ? 'REV' : '', limit, after?.createdAt ?? '', after?.id ?? '', kinds.join(''), ...names,
  ]
}
