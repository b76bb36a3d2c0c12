import type { TaskEngine } from '../../engine/engine.js'
import type {
  Changed, Expected, FileShare, StoredTask, TaskChange, TaskStatus,
} from '../../engine/task.js'
import { isPending, type MaybePromise } from '../../runtime/maybe-promise.js'
import { OwnContext } from '../../runtime/own-context.js'
import { settles } from '../../runtime/timers.js'
import { telling } from '../../runtime/warning.js'
import type { Blobs } from '../../stores/blobs.js'
import type { AnyTaskDefinition } from '../definition/define.js'
import type { Tracing } from '../definition/tracing.js'
import {
  allFileKeys, fileKey, hiddenFileKeys, releaseExternal, renewExternal,
} from '../record/outside.js'
import { queueFull, tooManyTasks } from '../run/failure.js'
import {
  publishAccepted, publishMove, taskChannel, type OnTaskError,
} from '../record/diagnostics.js'
import type { Store } from '../../stores/store.js'
import { StoreRetry } from '../../stores/calls.js'
import { blobBytes, deleteBlobs } from '../../stores/blob-rules.js'
import { detailsOf, workIdOf, type Details } from '../record/details.js'

/** Time for which files and the input of a task may outlive the task, in milliseconds. */
export const MARGIN_MS = 3_600_000

/** Maximum time that a request or a run waits for `cancel` of its definition, in milliseconds. */
const CANCEL_MS = 1000

export interface CoreSettings {
  readonly engine: TaskEngine
  readonly store: Store
  readonly definitions: ReadonlyMap<string, AnyTaskDefinition>
  readonly blobs: Blobs | undefined
  readonly retentionMs: number
  readonly pendingMs: number
  readonly unknownTaskMs: number
  readonly maxResultBytes: number
  readonly maxFileBytes: number
  readonly maxFileBytesPerOwner: number
  readonly progressIntervalMs: number
  readonly maxCrashes: number
  readonly hasCallbacks: boolean
  readonly tracing: Tracing | undefined
  readonly onError: OnTaskError
}

export interface Moved {
  readonly task: StoredTask | undefined
  /** `false`: another change came first. */
  readonly moved: boolean
}

export class TaskCore {
  readonly engine: TaskEngine
  /** Its abort ends all retries of `retry`. */
  readonly retries = new AbortController()
  readonly retry: StoreRetry
  /** The async context of `createTasks`. Functions that belong to no request are called in it. */
  readonly context = new OwnContext()
  isClosing = false

  constructor(readonly settings: CoreSettings) {
    this.engine = settings.engine
    this.retry = new StoreRetry(settings.engine.shared, this.retries.signal)
  }

  definition(name: string): AnyTaskDefinition | undefined {
    return this.settings.definitions.get(name)
  }

  retentionMs(name: string): number {
    return this.definition(name)?.retentionMs ?? this.settings.retentionMs
  }

  async change(from: StoredTask, expected: Expected, change: TaskChange): Promise<Moved> {
    return this.moved(from, await this.engine.change(from, expected, change))
  }

  /** @param lease - that of the run */
  changeRun(from: StoredTask, lease: string, change: TaskChange): MaybePromise<Moved> {
    return this.persist(from, { lease }, change)
  }

  /** Makes a change. Retries for about five minutes while the engine is unavailable. */
  persist(from: StoredTask, expected: Expected, change: TaskChange): MaybePromise<Moved> {
    const changed = this.engine.change(from, expected, change)
    if (!isPending(changed)) return this.moved(from, changed)
    return this.retry.run(() => this.engine.change(from, expected, change), changed)
      .then((late) => this.moved(from, late))
  }

  /** Deletes what a final task no longer needs outside of the engine. Never rejects. */
  async cleanUp(task: StoredTask): Promise<void> {
    const { blobs, fileRuns, external } = detailsOf(task)
    await deleteBlobs(this.settings.blobs, hiddenFileKeys({ id: task.id, blobs, fileRuns }))
    if (external === undefined) return
    const definition = this.definition(task.name)
    if (task.status === 'completed') return releaseExternal(this.context, definition, external)
    const ttlMs = this.retentionMs(task.name) + MARGIN_MS
    await renewExternal(this.context, definition, external, ttlMs).catch(() => undefined)
  }

  /** Stops what the newest run of a task has started in another system. Never rejects. */
  async cancelWork(task: StoredTask): Promise<void> {
    const { cancel } = this.definition(task.name) ?? {}
    if (cancel === undefined || task.run === 0) return
    const cancelled = this.context.run(async () => { await cancel(workIdOf(task)) })
      .catch((error: unknown) => { this.report(error, task) })
    await settles(cancelled, CANCEL_MS)
  }

  /** Deletes all that a task has outside of the engine. Never rejects. */
  async removeFiles(task: StoredTask): Promise<boolean> {
    const { blobs, fileRuns, external } = detailsOf(task)
    await deleteBlobs(this.settings.blobs, allFileKeys({ id: task.id, blobs, fileRuns }))
    if (external === undefined) return true
    await releaseExternal(this.context, this.definition(task.name), external, task)
    return true
  }

  /** Reports a failure to `onError`, which cannot change how a task ends. */
  report(error: unknown, { id: taskId, name, attempt }: Pick<StoredTask, 'id' | 'name' | 'attempt'>): void {
    this.context.run(() => {
      telling(() => this.settings.onError(error, { taskId, name, attempt }))
    })
  }

  private moved(from: StoredTask, changed: Changed): Moved {
    if (changed.outcome === 'conflict') return { task: changed.task, moved: false }
    if (changed.outcome === 'caller_full') throw tooManyTasks()
    if (changed.outcome === 'full') throw queueFull()
    if (taskChannel.hasSubscribers) {
      if (from.status === 'queued' && from.run === 0) publishCommitted(from)
      publishMove(from, changed.task)
    }
    return { task: changed.task, moved: true }
  }
}

/** Publishes that a task was accepted in a transaction. Call at its first step. */
export function publishCommitted(task: StoredTask): void {
  if (detailsOf(task).isTransactional) publishAccepted(task)
}

export function noCallbacks(): TypeError {
  return new TypeError('A task with a callback URL needs the option callbacks of createTasks: '
    + 'pass callbacks({ secrets }) of longhaul/callbacks')
}

/** The option `callbacks` of `createTasks`, made by `callbacks()` of `longhaul/callbacks`. */
export interface Callbacks {
  /** @internal */
  readonly concurrency: number
  /** @internal */
  readonly open: (core: TaskCore) => CallbackDeliveries
}

export interface CallbackDeliveries {
  /** Throws an `HttpError`, or a `TypeError` if there is no secret to sign with. */
  check(url: unknown, owner: string | undefined): Promise<string>
  /** Makes one attempt at the callback of a task. Never rejects. */
  deliver(task: StoredTask): Promise<void>
  /** `false`: there is no callback, or, with `unlessPending`, a round is under way. */
  redeliver(id: string, unlessPending: boolean): Promise<boolean>
  /** Aborts all requests. */
  close(): void
}

export function hasOutside({ external, blobs, fileRuns }: Details): boolean {
  return external !== undefined || blobs !== undefined || fileRuns !== undefined
}

/** Returns the bytes that a task keeps outside of the engine with this status. Never rejects. */
export async function outsideFiles(
  core: TaskCore, task: StoredTask, { external, files, blobs: kept = [] }: Details, status: TaskStatus,
): Promise<FileShare | undefined> {
  const { blobs, maxFileBytesPerOwner: max } = core.settings
  const { id, name, attempt } = task
  const count = external === undefined ? undefined : core.definition(name)?.external?.bytes
  if (count === undefined && kept.length === 0) return undefined
  try {
    const outside = await core.context.run(() => (
      count?.(external as string, { id, attempt, status })
    )) ?? 0
    const sizes = status === 'completed' || !blobs
      ? files?.map(({ size }) => size) ?? []
      : await blobBytes(blobs, kept.map((blob) => fileKey(id, blob)))
    const bytes = sizes.reduce((total, size) => total + size, outside)
    // `bytes` of `external` may return anything.
    return Number.isSafeInteger(bytes) && bytes >= 0 ? { bytes, max } : undefined
  } catch {
    return undefined
  }
}
