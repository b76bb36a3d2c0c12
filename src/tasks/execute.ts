import type { Attempt, DeadReason, Job } from '../queues/queue.js'
import { isQueueClosing } from '../queues/queue.js'
import type { AnyTaskDefinition } from './define.js'
import { failureOf, isPermanent, type Failure } from './failure.js'
import { taskKey, type Held, type Ledger } from './ledger.js'
import { ProgressWriter } from './progress.js'
import type { TaskChange, TaskRecord } from './record.js'
import { runOnce } from './run.js'
import { isFinal } from './state.js'

/** What an executor needs to know. */
export interface ExecutorSettings {
  readonly ledger: Ledger
  readonly definitions: ReadonlyMap<string, AnyTaskDefinition>
  readonly durable: boolean
  readonly retentionMs: number
  readonly maxResultBytes: number
  readonly progressIntervalMs: number
  /** Told of every failure that clients see masked, and of failures of the store. */
  readonly onError: (error: unknown, at: { taskId: string; name: string; attempt: number }) => void
  /** Called when a record has become final by this process's hand. */
  readonly onFinal: (record: TaskRecord) => Promise<void>
}

const CANCELLED = new Error('The task was cancelled')

/** Runs jobs: moves their records along, and never lets a late run overwrite what is final. */
export class Executor {
  private readonly running = new Map<string, AbortController>()

  constructor(private readonly settings: ExecutorSettings) {}

  /** How many tasks run in this process. */
  get size(): number {
    return this.running.size
  }

  /** How long a finished task of this kind is kept, in milliseconds. */
  retention(name: string): number {
    return this.settings.definitions.get(name)?.retentionMs ?? this.settings.retentionMs
  }

  /** Aborts the run of a task in this process, when there is one. */
  abort(id: string): void {
    this.running.get(id)?.abort(CANCELLED)
  }

  /** Runs one job. Resolves when it needs no other try; rejects so that the queue tries again. */
  async run(job: Job, attempt: Attempt): Promise<void> {
    const { ledger, definitions } = this.settings
    const found = await ledger.load(job.taskId)
    // Never acknowledged, deleted, expired, or done by a run whose worker died before saying so.
    if (!found || isFinal(found.record.state)) return
    const definition = definitions.get(job.name)
    if (!definition) return this.finish(found, failed(failureOf('unknown_task')))
    const begun = await ledger.move(found, (record) => ({
      state: 'processing', attempt: record.attempt + 1, startedAt: record.startedAt ?? Date.now(),
    }))
    if (!begun?.moved) return
    await this.perform(definition, begun, job, attempt)
  }

  /** Fails the record of a job that will not be run again. */
  async bury(job: Job, reason: DeadReason): Promise<void> {
    const held = await this.settings.ledger.load(job.taskId)
    if (held) await this.finish(held, failed(failureOf(reason === 'attempts' ? 'task_failed' : 'task_interrupted')))
  }

  private async perform(definition: AnyTaskDefinition, begun: Held, job: Job, attempt: Attempt): Promise<void> {
    const { ledger, maxResultBytes, progressIntervalMs, durable } = this.settings
    const fence = begun.record.attempt
    let held = begun
    /** Our moves hold only while no later run and no cancel came in between. */
    const move = async (to: TaskChange) => {
      const now = await ledger.move(held, (record) => (record.attempt === fence && record.state === 'processing' ? to : undefined))
      if (now) held = now
      if (!now || now.record.attempt !== fence || isFinal(now.record.state)) controller.abort(CANCELLED)
      return now?.moved ?? false
    }
    const controller = new AbortController()
    const stop = () => controller.abort(attempt.signal.reason)
    attempt.signal.addEventListener('abort', stop, { once: true })
    if (attempt.signal.aborted) stop()
    this.running.set(job.taskId, controller)
    const progress = new ProgressWriter(async (report) => { await move({ progress: report }) }, progressIntervalMs)
    const unwatch = await this.watch(job.taskId, fence, controller)
    try {
      const outcome = await runOnce(definition, job.input, {
        taskId: job.taskId, attempt: fence, lastAttempt: attempt.lastAttempt, owner: begun.record.owner,
        context: job.context, progress: progress.report, signal: controller.signal,
        timeoutMs: definition.timeoutMs, maxResultBytes,
      })
      const last = await progress.close()
      const report = last ? { progress: last } : {}
      if (outcome.kind === 'completed') {
        await this.finishRun(move, definition, { ...report, state: 'completed', result: outcome.result }, () => held)
      } else if (outcome.kind === 'failed') {
        this.tell(outcome.cause, job, fence)
        if (!attempt.lastAttempt && !isPermanent(outcome.cause)) {
          if (await move({ ...report, state: 'queued' })) throw new AttemptFailed(outcome.failure.message)
          return
        }
        await this.finishRun(move, definition, { ...report, ...failed(outcome.failure) }, () => held)
      } else if (isQueueClosing(outcome.reason)) {
        if (!durable) return await this.finishRun(move, definition, { ...report, ...failed(failureOf('task_interrupted')) }, () => held)
        if (await move({ ...report, state: 'queued' })) throw new AttemptFailed('The worker is closing')
      }
    } finally {
      unwatch()
      attempt.signal.removeEventListener('abort', stop)
      this.running.delete(job.taskId)
    }
  }

  /** A cancel in another process is seen by its write to the record. */
  private async watch(id: string, fence: number, controller: AbortController): Promise<() => void> {
    const { ledger } = this.settings
    if (!ledger.store.shared) return () => undefined
    return ledger.store.watch(taskKey(id), () => {
      ledger.load(id).then((held) => {
        if (!held || held.record.attempt !== fence || isFinal(held.record.state)) controller.abort(CANCELLED)
      }, () => undefined)
    })
  }

  private async finishRun(
    move: (to: TaskChange) => Promise<boolean>, definition: AnyTaskDefinition, to: TaskChange, held: () => Held,
  ): Promise<void> {
    if (await move({ ...to, ...this.ending(definition.name) })) await this.settings.onFinal(held().record)
  }

  private async finish(held: Held, to: TaskChange): Promise<void> {
    const now = await this.settings.ledger.move(held, (record) => ({ ...to, ...this.ending(record.name) }))
    if (now?.moved) await this.settings.onFinal(now.record)
  }

  private ending(name: string): TaskChange {
    const finishedAt = Date.now()
    return { finishedAt, expiresAt: finishedAt + this.retention(name) }
  }

  private tell(cause: unknown, job: Job, attempt: number): void {
    this.settings.onError(cause, { taskId: job.taskId, name: job.name, attempt })
  }
}

/** What the queue sees of a failed try: enough for a log line, nothing that was masked. */
class AttemptFailed extends Error {
  override readonly name = 'AttemptFailed'
}

function failed({ code, message, status }: Failure): TaskChange {
  return { state: 'failed', error: { code, message }, errorStatus: status }
}
