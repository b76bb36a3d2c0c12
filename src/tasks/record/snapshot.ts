import type { ListedStatus } from '../../engine/engine.js'
import type { StoredTask, TaskStatus } from '../../engine/task.js'
import { SecondTexts } from '../../http/fields/dates.js'
import { callbackOf, callbackText, detailsOf, type ErrorFields } from './details.js'

/** A task for readers, with JSON text for clients. Its properties are getters: a spread copies none. */
export interface TaskSnapshot {
  readonly id: string
  readonly state: TaskStatus
  /**
   * Status in lists: `scheduled` until the start of a task for later, else `state`. The clock is read
   * once, so that the body and the entity tag of a response agree.
   */
  readonly listedAs: ListedStatus
  readonly version: number
  /** Number of the latest run; 0 before the first one. */
  readonly attempt: number
  readonly createdAt: number
  /** Time before which its first run does not begin, if it was submitted for later. */
  readonly startAt: number | undefined
  readonly expiresAt: number
  readonly owner: string | undefined
  readonly errorStatus: number | undefined
  readonly errorFields: ErrorFields | undefined
  /** Names of the blobs of its result files, or of those that a later run may take over. */
  readonly blobs?: readonly string[] | undefined
  /** The task as clients see it, as JSON text, without the URLs of its files. */
  readonly text: string
}

export function toSnapshot(task: StoredTask): TaskSnapshot {
  return new Snapshot(task)
}

/** Reads its properties from the task, and makes the text when it is first asked for. */
class Snapshot implements TaskSnapshot {
  #text: string | undefined
  #listedAs: ListedStatus | undefined

  constructor(private readonly task: StoredTask) {}

  get id(): string { return this.task.id }
  get state(): TaskStatus { return this.task.status }
  get version(): number { return this.task.version }
  get attempt(): number { return this.task.attempt }
  get createdAt(): number { return this.task.createdAt }
  get startAt(): number | undefined { return this.task.startAt }
  get expiresAt(): number { return this.task.expiresAt }
  get owner(): string | undefined { return this.task.owner }
  get errorStatus(): number | undefined { return detailsOf(this.task).errorStatus }
  get errorFields(): ErrorFields | undefined { return detailsOf(this.task).errorFields }
  get blobs(): readonly string[] | undefined { return detailsOf(this.task).blobs }

  get listedAs(): ListedStatus {
    const { status, attempt, startAt } = this.task
    const isLater = status === 'queued' && attempt === 0 && startAt !== undefined
    this.#listedAs ??= isLater && startAt > Date.now() ? 'scheduled' : status
    return this.#listedAs
  }

  get text(): string {
    this.#text ??= toTaskText(this.task)
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

/**
 * Returns the task as clients see it, as JSON text: the body of the 202 and of the
 * status resource. A queued task reads `processing`; only the job format shows `queued`.
 */
export function toTaskText(task: StoredTask): string {
  const { id, name, attempt, result, createdAt, startAt, startedAt, finishedAt } = task
  const { progress, files, error, attempts } = detailsOf(task)
  const callback = callbackOf(task)
  let text = `{"taskId":"${id}","status":${statusOf(task)},"task":"${name}"`
  if (attempt > 0) text += `,"attempt":${attempt}`
  if (progress !== undefined) text += `,"progress":${JSON.stringify(progress)}`
  if (result !== undefined) text += `,"result":${result}`
  if (files !== undefined) text += `,"files":${JSON.stringify(files)}`
  if (error !== undefined) text += `,"error":${JSON.stringify(error)}`
  if (attempts !== undefined) text += `,"attempts":${JSON.stringify(attempts)}`
  if (callback !== undefined) text += `,"callback":${callbackText(callback)}`
  text += `,"createdAt":"${toIso(createdAt)}"`
  if (startAt !== undefined) text += `,"startAt":"${toIso(startAt)}"`
  if (startedAt !== undefined) text += `,"startedAt":"${toIso(startedAt)}"`
  if (finishedAt !== undefined) text += `,"finishedAt":"${toIso(finishedAt)}"`
  return text + '}'
}

/** A task for later says when it starts, until it does. */
function statusOf({ status, startAt, attempt }: StoredTask): string {
  if (startAt === undefined || status !== 'queued' || attempt > 0) return STATUS[status]
  return `"processing","message":"The task was accepted and starts at ${toIso(startAt)}."`
}

/** The end of a time, by its milliseconds. */
const ENDS = Array.from({ length: 1000 }, (_, ms) => `${String(ms).padStart(3, '0')}Z`)
const starts = new SecondTexts((ms) => new Date(ms).toISOString().slice(0, -4))

/** ISO 8601. */
function toIso(ms: number): string {
  const second = Math.floor(ms / 1000)
  return starts.of(second) + (ENDS[ms - second * 1000] as string)
}
