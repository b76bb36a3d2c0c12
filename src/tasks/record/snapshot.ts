import type { ListedStatus } from '../../engine/engine.js'
import type { StoredTask, TaskStatus } from '../../engine/task.js'
import { SecondTexts } from '../../runtime/text.js'
import { callbackText, type Details, type ErrorFields } from './details.js'

/** A task as formats get it. `listedAs` and `text` are getters: a spread lacks them. */
export interface TaskSnapshot {
  readonly id: string
  readonly state: TaskStatus
  /** Status in lists: `scheduled` until the start of a task for later, else `state`. Computed once. */
  readonly listedAs: ListedStatus
  readonly version: number
  /** Number of the latest run; 0 before the first one. */
  readonly attempt: number
  readonly createdAt: number
  /** Earliest start of the first run, if the task was submitted for later. */
  readonly startAt: number | undefined
  readonly expiresAt: number
  readonly owner: string | undefined
  readonly errorStatus: number | undefined
  readonly errorFields: ErrorFields | undefined
  /** Names of the blobs of its files. */
  readonly blobs?: readonly string[] | undefined
  /** JSON of the task as clients see it, without the URLs of its files. */
  readonly text: string
}

export class Snapshot implements TaskSnapshot {
  readonly id: string
  readonly state: TaskStatus
  readonly version: number
  readonly attempt: number
  readonly createdAt: number
  readonly startAt: number | undefined
  readonly expiresAt: number
  readonly owner: string | undefined
  readonly errorStatus: number | undefined
  readonly errorFields: ErrorFields | undefined
  readonly blobs: readonly string[] | undefined
  readonly #task: StoredTask
  #text: string | undefined
  #listedAs: ListedStatus | undefined

  constructor(task: StoredTask) {
    const { errorStatus, errorFields, blobs }: Details = task.details
    this.id = task.id
    this.state = task.status
    this.version = task.version
    this.attempt = task.attempt
    this.createdAt = task.createdAt
    this.startAt = task.startAt
    this.expiresAt = task.expiresAt
    this.owner = task.owner
    this.errorStatus = errorStatus
    this.errorFields = errorFields
    this.blobs = blobs
    this.#task = task
  }

  get listedAs(): ListedStatus {
    const { state, attempt, startAt } = this
    const isLater = state === 'queued' && attempt === 0 && startAt !== undefined
    this.#listedAs ??= isLater && startAt > Date.now() ? 'scheduled' : state
    return this.#listedAs
  }

  get text(): string {
    this.#text ??= toTaskText(this.#task)
    return this.#text
  }
}

const ACCEPTED = '"processing","message":"The task was accepted and is being processed."'

const STATUS: Readonly<Record<TaskStatus, string>> = {
  queued: ACCEPTED,
  processing: ACCEPTED,
  completed: '"completed","message":"The task is completed."',
  failed: '"failed","message":"The task failed."',
  cancelled: '"cancelled","message":"The task was cancelled."',
}

/** A queued task has the status `processing`. Only the job format shows `queued`. */
export function toTaskText(task: StoredTask): string {
  const {
    id, status, name, attempt, result, createdAt, startAt, startedAt, finishedAt, callbackAt,
  } = task
  const { progress, files, error, attempts, callback }: Details = task.details
  const isLater = startAt !== undefined && status === 'queued' && attempt === 0
  const shown = isLater
    ? `"processing","message":"The task was accepted and starts at ${toIso(startAt)}."`
    : STATUS[status]
  let text = `{"taskId":"${id}","status":${shown},"task":"${name}"`
  if (attempt > 0) text += `,"attempt":${attempt}`
  if (progress !== undefined) text += `,"progress":${JSON.stringify(progress)}`
  if (result !== undefined) text += `,"result":${result}`
  if (files !== undefined) text += `,"files":${JSON.stringify(files)}`
  if (error !== undefined) text += `,"error":${JSON.stringify(error)}`
  if (attempts !== undefined) text += `,"attempts":${JSON.stringify(attempts)}`
  if (callback !== undefined) text += `,"callback":${callbackText(callback, callbackAt)}`
  text += `,"createdAt":"${toIso(createdAt)}"`
  if (startAt !== undefined) text += `,"startAt":"${toIso(startAt)}"`
  if (startedAt !== undefined) text += `,"startedAt":"${toIso(startedAt)}"`
  if (finishedAt !== undefined) text += `,"finishedAt":"${toIso(finishedAt)}"`
  return text + '}'
}

/** Ends of times, by their milliseconds. */
const ENDS = Array.from({ length: 1000 }, (_, ms) => `${String(ms).padStart(3, '0')}Z`)
const starts = new SecondTexts((ms) => new Date(ms).toISOString().slice(0, -4))

function toIso(ms: number): string {
  const second = Math.floor(ms / 1000)
  return starts.of(second) + (ENDS[ms - second * 1000] as string)
}
