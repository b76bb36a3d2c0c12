import type { ListedStatus } from '../../engine/engine.js'
import type { StoredTask, TaskStatus } from '../../engine/task.js'
import { detailsOf, type ErrorFields } from './details.js'
import { toTaskText } from './task-text.js'

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

/** Returns a task as the HTTP layer reads it. */
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
