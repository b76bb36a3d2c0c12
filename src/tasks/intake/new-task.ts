import type { AnyTaskDefinition } from '../definition/define.js'
import { httpError } from '../../http/errors.js'
import { renewExternal } from '../record/external.js'
import { isTaskId, newJobName } from '../record/ids.js'
import type { TaskRecord } from '../record/record.js'
import { checkedName } from '../definition/kept.js'
import { encodeWork, placeWork, storeLargeWork } from '../record/work.js'
import { checkPriority } from '../../queues/priority.js'
import { DEFAULT_POOL } from '../../queues/queue-pools.js'
import { newId } from '../../runtime/random-id.js'
import type { Store } from '../../stores/store.js'
import type { AcceptOptions } from './submit-options.js'

/** The members of a new record that depend on where its job is kept. */
type JobPlace = Pick<TaskRecord, 'holder' | 'enqueuedLater'>

/** A task that is about to be accepted: its id, its job and its times. */
export class NewTask {
  readonly id: string
  readonly jobName = newJobName()
  readonly delayMs: number
  /** Lifetime of the record until the task ends, in milliseconds. */
  readonly ttlMs: number
  private readonly encodedWork: string

  /**
   * @param pendingMs - maximum time for which an unfinished task is kept, after its delay
   * @throws {TypeError} `id` or `priority` makes no sense
   */
  constructor(
    readonly definition: AnyTaskDefinition, readonly input: unknown,
    readonly options: AcceptOptions, pendingMs: number,
  ) {
    const { id = newId(), start, priority } = options
    if (!isTaskId(id)) {
      throw new TypeError('id must be 1 to 128 of A-Z a-z 0-9 . _ - and not begin with a dot')
    }
    if (priority !== undefined) checkPriority(priority)
    this.id = id
    this.delayMs = start?.delayMs ?? 0
    this.ttlMs = this.delayMs + pendingMs
    const { attempts, backoff } = definition
    const { context } = options
    this.encodedWork = encodeWork({ input, context, attempts, backoff })
    if (this.encodedWork.length > MAX_CONTEXT_LENGTH) checkContext(context)
  }

  /** @param slot - the key of the slot that `maxPerOwner` needs */
  toRecord(slot: string | undefined, { holder, enqueuedLater }: JobPlace): TaskRecord {
    const { definition: { name, keeps, pool }, input, ttlMs } = this
    const { owner, counted, claim, callbackUrl, start } = this.options
    const { priority = this.definition.priority } = this.options
    const createdAt = Date.now()
    return {
      id: this.id, name, owner, party: owner === undefined ? counted : undefined, state: 'queued', job: this.jobName, attempt: 0, version: 1,
      createdAt, startedAt: undefined, finishedAt: undefined, expiresAt: createdAt + ttlMs,
      startAt: start?.at,
      pool: pool === DEFAULT_POOL ? undefined : pool,
      priority: priority === 0 ? undefined : priority,
      progress: undefined, result: undefined, error: undefined, errorStatus: undefined,
      claim, slot, holder,
      keeps: keeps && checkedName(keeps.of(input)),
      callback: callbackUrl === undefined
        ? undefined : { url: callbackUrl, state: 'waiting', attempts: 0 },
      enqueuedLater,
      ...placeWork(this.encodedWork, { id: this.id, job: this.jobName }),
    }
  }

  /**
   * Writes the work of this task if it is too long for its record. Renews what the input of a task
   * for later names, such as a spooled upload, because that was stored for a task that runs now.
   *
   * @param retentionMs - time for which a final task is kept, unless its definition says otherwise
   * @throws {HttpError} 410 `gone`: what the input names no longer exists.
   */
  async storeInput(
    store: Store, { largeWork, keeps }: TaskRecord, retentionMs: number,
  ): Promise<void> {
    const { id: taskId, ttlMs, delayMs, definition, encodedWork } = this
    const keptMs = ttlMs + (definition.retentionMs ?? retentionMs)
    if (delayMs > 0 && !await renewExternal(definition, keeps, keptMs)) {
      throw httpError('gone', { message: 'The input of this task is no longer stored.' })
    }
    if (largeWork === undefined) return
    await storeLargeWork(store, largeWork, encodedWork, { taskId, ttlMs: keptMs })
  }
}

/** Maximum length of a context as JSON, because it is stored with each task. */
const MAX_CONTEXT_LENGTH = 65_536

/** @throws {TypeError} The JSON of a context is too long. */
function checkContext(context: unknown): void {
  const { length } = (JSON.stringify(context) as string | undefined) ?? ''
  if (length <= MAX_CONTEXT_LENGTH) return
  throw new TypeError(`context has ${length} characters as JSON, and may have ${MAX_CONTEXT_LENGTH}:`
    + ' pass an id, and let run load the rest')
}
