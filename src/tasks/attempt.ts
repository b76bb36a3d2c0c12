import { readFailure } from '../http/failure.js'
import type { MaybePromise } from '../http/exchange.js'
import type { Attempt, Job } from '../queues/queue.js'
import { isQueueClosing } from '../queues/queue.js'
import type { AnyTaskDefinition } from './define.js'
import { failureOf, isPermanent, type Failure } from './failure.js'
import { taskKey, type Held, type Ledger, type Moved } from './ledger.js'
import { ProgressWriter } from './progress.js'
import type { TaskChange, TaskProgress, TaskRecord } from './record.js'
import { patiently } from './retry.js'
import { runOnce, type Outcome } from './run.js'
import { isFinal } from './state.js'
import type { Stop } from './stop.js'

/** What an executor needs to know. */
export interface ExecutorSettings {
  readonly ledger: Ledger
  readonly definitions: ReadonlyMap<string, AnyTaskDefinition>
  readonly durable: boolean
  readonly retentionMs: number
  readonly maxResultBytes: number
  readonly progressIntervalMs: number
  /** Told of every failure that clients see masked, and of failures of the store. What it throws is dropped. */
  readonly onError: (error: unknown, at: { taskId: string; name: string; attempt: number }) => unknown
  /** Called when a record is found final or has become so by this process's hand; may be called again for one record. */
  readonly onFinal: (record: TaskRecord) => MaybePromise<void>
}

/** The abort reason of a run whose task was cancelled, or taken over by a later run. */
export const CANCELLED = new Error('The task was cancelled')
/** A notice may be lost, so a run looks for its cancel this often. */
const LOOK_MS = 5000

/** One try of one job, from the record's `processing` to wherever it gets. */
export class TaskAttempt {
  private held: Held | undefined
  /** Our moves hold only while no later run came in between: its attempt would be larger. */
  private fence = Infinity

  constructor(
    private readonly settings: ExecutorSettings, private readonly retentionMs: number,
    private readonly job: Job, private readonly attempt: Attempt, private readonly stop: Stop,
  ) {}

  /** Rejects when there has to be another try. */
  perform(): Promise<void> {
    return this.settings.ledger.store.shared ? this.runFollowed() : this.run()
  }

  private async runFollowed(): Promise<void> {
    const unfollow = await this.follow()
    try {
      await this.run()
    } finally {
      unfollow()
    }
  }

  /** Where others write to the store: a cancel in another process is seen by its write to the record. */
  private async follow(): Promise<() => void> {
    const { ledger } = this.settings
    this.stop.watch()
    const look = () => {
      ledger.load(this.job.taskId).then((now) => {
        if (!now || now.record.attempt > this.fence || isFinal(now.record.state)) this.stop.abort(CANCELLED)
      }, () => undefined)
    }
    const unwatch = await patiently(() => ledger.store.watch(taskKey(this.job.taskId), look))
    const timer = setInterval(look, LOOK_MS)
    timer.unref()
    return () => {
      unwatch()
      clearInterval(timer)
    }
  }

  private async run(): Promise<void> {
    const { settings, job, attempt } = this
    const { ledger, definitions, onFinal } = settings
    const found = ledger.handed(job) ?? await patiently(() => ledger.load(job.taskId))
    // Never acknowledged, deleted or expired.
    if (!found) return
    const definition = definitions.get(job.name)
    if (!definition) return finish(settings, found, this.retentionMs, failed(failureOf('unknown_task')))
    const begun = await ledger.move(found, begin, true)
    if (!begun) return
    // Cancelled, or done by a run whose process died before saying so.
    if (isFinal(begun.record.state)) return onFinal(begun.record)
    if (!begun.moved) return
    this.held = begun
    this.fence = begun.record.attempt

    const writer = new ProgressWriter(async (progress) => { this.see(await this.write({ progress })) }, settings.progressIntervalMs)
    const outcome = await runOnce(definition, job.input, {
      taskId: job.taskId, attempt: this.fence, lastAttempt: attempt.lastAttempt, owner: begun.record.owner,
      context: job.context, progress: writer.report, stop: this.stop,
      timeoutMs: definition.timeoutMs, maxResultBytes: settings.maxResultBytes,
    })
    const closed = writer.close()
    const progress = closed instanceof Promise ? await closed : closed
    if (outcome.kind === 'failed') {
      // What clients see as it is was thrown on purpose: nothing that the host has to look at.
      if (!readFailure(outcome.cause).expected) tell(settings, outcome.cause, job, this.fence)
      if (!attempt.lastAttempt && !isPermanent(outcome.cause)) return this.giveBack(progress, outcome.failure.message)
    }
    if (outcome.kind === 'aborted') {
      // Cancelled, or taken over by a later run: the record says so already.
      if (!isQueueClosing(outcome.reason)) return settings.durable ? this.tellOfEnd() : undefined
      if (settings.durable) return this.giveBack(progress, 'The worker is closing')
    }
    this.see(await this.write(ended(endingOf(outcome), progress, this.retentionMs), true))
    // Also when the record was final already: it may have been an earlier try of this very write.
    if (isFinal(this.held.record.state)) await onFinal(this.held.record)
  }

  /** Writes a change unless a later run or a cancel came first. */
  private write(to: TaskChange, patient = false): Promise<Moved | undefined> {
    if (!this.held) return Promise.resolve(undefined)
    return this.settings.ledger.move(this.held, (record) => (
      record.attempt === this.fence && record.state === 'processing' ? to : undefined
    ), patient)
  }

  /** Takes note of what a write came to, and stops this run when another has taken over. */
  private see(now: Moved | undefined): void {
    if (now) this.held = now
    if (!now || now.record.attempt !== this.fence || isFinal(now.record.state)) this.stop.abort(CANCELLED)
  }

  /** Whoever cancelled this run tells of it, unless its process died first: then it is told of here. */
  private async tellOfEnd(): Promise<void> {
    const now = await patiently(() => this.settings.ledger.load(this.job.taskId))
    if (now && (now.record.callback ?? now.record.keeps) !== undefined && isFinal(now.record.state)) await this.settings.onFinal(now.record)
  }

  private async giveBack(progress: TaskProgress | undefined, why: string): Promise<void> {
    const now = await this.write({ progress, state: 'queued' }, true)
    this.see(now)
    if (now?.moved) throw new AttemptFailed(why)
  }
}

const begin = (record: TaskRecord): TaskChange => ({
  state: 'processing', attempt: record.attempt + 1, startedAt: record.startedAt ?? Date.now(),
})

/** Ends a record from outside of a run. */
export async function finish(settings: ExecutorSettings, held: Held, retentionMs: number, to: Ending): Promise<void> {
  const change = ended(to, undefined, retentionMs)
  const now = await settings.ledger.move(held, () => change, true)
  if (now && isFinal(now.record.state)) await settings.onFinal(now.record)
}

/** How a run ends. */
type Ending = Pick<TaskChange, 'state' | 'result' | 'error' | 'errorStatus'>

function endingOf(outcome: Outcome): Ending {
  if (outcome.kind === 'completed') return { state: 'completed', result: outcome.result }
  return failed(outcome.kind === 'failed' ? outcome.failure : failureOf('task_interrupted'))
}

function ended({ state, result, error, errorStatus }: Ending, progress: TaskProgress | undefined, retentionMs: number): TaskChange {
  const finishedAt = Date.now()
  return { state, result, error, errorStatus, progress, finishedAt, expiresAt: finishedAt + retentionMs }
}

/** The host's listener must not decide how a task ends. */
export function tell({ onError }: Pick<ExecutorSettings, 'onError'>, cause: unknown, job: Pick<Job, 'taskId' | 'name'>, attempt: number): void {
  try {
    const told = onError(cause, { taskId: job.taskId, name: job.name, attempt })
    if (told instanceof Promise) told.catch(() => undefined)
  } catch {
    // There is nobody left to tell.
  }
}

/** What the queue sees of a failed try: enough for a log line, nothing that was masked. */
export class AttemptFailed extends Error {
  override readonly name = 'AttemptFailed'
}

/** The change that a failure makes of a record. */
export function failed({ code, message, status }: Failure): Ending {
  return { state: 'failed', error: { code, message }, errorStatus: status }
}
