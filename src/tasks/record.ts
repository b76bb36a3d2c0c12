import { canMove, isFinal, type TaskState } from './state.js'

/** How far the work is, in units of the task's own. */
export interface TaskProgress {
  readonly done: number
  readonly total?: number
  readonly message?: string
}

/** Why a task failed, as clients see it. */
export interface TaskFailure {
  readonly code: string
  readonly message: string
}

/** One task as it is stored. Times are milliseconds since 1970. */
export interface TaskRecord {
  readonly id: string
  readonly name: string
  readonly owner?: string
  readonly state: TaskState
  /** Runs that have begun: the fence that keeps a late worker out. */
  readonly attempt: number
  /** Counts changes that a client can see; ETag and event ids are made of it. */
  readonly version: number
  readonly createdAt: number
  readonly startedAt?: number
  readonly finishedAt?: number
  readonly expiresAt: number
  readonly progress?: TaskProgress
  /** The result as JSON text: always an object with a `message`. */
  readonly result?: string
  readonly error?: TaskFailure
  /** The HTTP status of `error`, for answers that wait for the work. */
  readonly errorStatus?: number
  /** Keys of other entries that live and die with this one: an idempotency claim, a slot of `maxPerOwner`. */
  readonly claim?: string
  readonly slot?: string
}

/** What changes in one move. */
export type TaskChange = Partial<Omit<TaskRecord, 'id' | 'name' | 'owner' | 'version' | 'createdAt'>>

/** The sentence that goes with a state in the task face. */
const MESSAGES: Readonly<Record<TaskState, string>> = {
  queued: 'The task was accepted and is being processed.',
  processing: 'The task was accepted and is being processed.',
  completed: 'The task is completed.',
  failed: 'The task failed.',
  cancelled: 'The task was cancelled.',
}

/** Members that no face shows: a change of these alone is no new version. */
const HIDDEN: ReadonlySet<string> = new Set(['attempt', 'expiresAt', 'errorStatus', 'claim', 'slot'])

/**
 * The record after a change, or `undefined` when the state machine forbids it. The version counts
 * changes that a client can see, so a hidden one leaves ETag and events alone.
 */
export function change(record: TaskRecord, to: TaskChange): TaskRecord | undefined {
  if (to.state !== undefined ? !canMove(record.state, to.state) : isFinal(record.state)) return undefined
  const seen = (Object.keys(to) as (keyof TaskChange)[]).some((key) => !HIDDEN.has(key) && to[key] !== record[key])
  return { ...record, ...to, version: seen ? record.version + 1 : record.version }
}

/**
 * The task face (SPEC 2.4, 2.5) as JSON text: what the 202 and the status resource carry. An accepted
 * task reads `processing` at once; only the job face knows `queued`.
 */
export function toFaceText(record: TaskRecord): string {
  const { state } = record
  let text = `{"taskId":"${record.id}","status":"${state === 'queued' ? 'processing' : state}","message":"${MESSAGES[state]}","task":"${record.name}"`
  if (record.progress !== undefined) text += `,"progress":${JSON.stringify(record.progress)}`
  if (record.result !== undefined) text += `,"result":${record.result}`
  if (record.error !== undefined) text += `,"error":${JSON.stringify(record.error)}`
  text += `,"createdAt":"${toIso(record.createdAt)}"`
  if (record.startedAt !== undefined) text += `,"startedAt":"${toIso(record.startedAt)}"`
  if (record.finishedAt !== undefined) text += `,"finishedAt":"${toIso(record.finishedAt)}"`
  return text + '}'
}

const toIso = (ms: number) => new Date(ms).toISOString()
