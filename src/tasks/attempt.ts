import { isPending } from '../http/around.js'
import { readFailure } from '../http/failure.js'
import type { MaybePromise } from '../http/exchange.js'
import type { Attempt, Job } from '../queues/queue.js'
import { isQueueClosing } from '../queues/queue.js'
import { afterMicrotasks, type Lasting } from './after-microtasks.js'
import { taskEvents, tellMove } from './channels.js'
import type { AnyTaskDefinition, TaskContext } from './define.js'
import { failureOf, isPermanent, type Failure } from './failure.js'
import type { Held, Ledger, Moved } from './ledger.js'
import { Lookout } from './lookout.js'
import { ProgressWriter } from './progress.js'
import { change, type TaskChange, type TaskProgress, type TaskRecord } from './record.js'
import { runOnce, type Outcome } from './run.js'
import { isFinal } from './state.js'
import type { Stop } from './stop.js'
import { TaskJob } from './task-job.js'
import { tell, type OnTaskError } from './tell.js'

/** What an executor needs to know. */
export interface ExecutorSettings {
  readonly ledger: Ledger
  readonly definitions: ReadonlyMap<string, AnyTaskDefinition>
  readonly durable: boolean
  readonly retentionMs: number
  readonly maxResultBytes: number
  readonly progressIntervalMs: number
  readonly onError: OnTaskError
  /** Called when a record is found final or has become so by this process's hand; may be called again for one record. */
  readonly onFinal: (record: TaskRecord) => MaybePromise<void>
}

/** The abort reason of a run whose task was cancelled, or taken over by a later run. */
export const CANCELLED = new Error('The task was cancelled')

/** One try of one job, from the record's `processing` to wherever it gets. */
export class TaskAttempt implements Lasting {
  private held: Held | undefined
  /** Our moves hold only while no later run came in between: its attempt would be larger. */
  private fence = Infinity
  /** The run has begun, and only this process knows; see `claim`. */
  private unwritten = false
  private writer: ProgressWriter | undefined
  private over = false

  constructor(
    private readonly settings: ExecutorSettings, private readonly retentionMs: number,
    private readonly job: Job, private readonly attempt: Attempt, readonly stop: Stop,
  ) {}

  /** Rejects when there has to be another try. */
  perform(): MaybePromise<void> {
    return this.settings.ledger.store.shared ? this.runFollowed() : this.run()
  }

  /** Writes that the run has begun, if it has and nobody knows yet. */
  turnOver(): void {
    if (!this.unwritten || this.over) return
    // Should it fail, the next write says it too.
    const now = this.write({})
    if (isPending(now)) now.then((late) => { this.see(late) }, () => undefined)
    else this.see(now)
  }

  /** Where others write to the store: a cancel in another process is seen by its write to the record. */
  private async runFollowed(): Promise<void> {
    this.stop.mind()
    const lookout = new Lookout(this.settings.ledger, this.job.taskId, (now) => {
      if (!now || now.attempt > this.fence || isFinal(now.state)) this.stop.abort(CANCELLED)
    })
    try {
      await this.run()
    } finally {
      lookout.end()
    }
  }

  private run(): MaybePromise<void> {
    const { job, attempt, settings: { definitions } } = this
    // A later attempt knows that others have written to the record since.
    const carried = attempt.attempt === 1 ? TaskJob.unload(job) : undefined
    const definition = definitions.get(job.name)
    const begun = carried && definition && this.claim(carried)
    return begun ? this.work(definition, begun) : this.begin(carried, definition)
  }

  /**
   * Begins a run without a write. Where the record is this process's alone, and is at hand as it was when the task was
   * taken in, nobody can learn that the run has begun before this turn of the event loop is over. A run that lasts longer is
   * written as begun then; one that does not has one write less to pay.
   */
  private claim(found: Held): Held | undefined {
    const { ledger, durable } = this.settings
    if (durable || ledger.store.shared || !ledger.prompt || ledger.revisionAtOnce(found) !== found.revision) return undefined
    const record = change(found.record, begin(found.record))
    if (!record) return undefined
    this.unwritten = true
    afterMicrotasks(this)
    if (taskEvents.hasSubscribers) tellMove(found.record, record)
    return { ...found, record }
  }

  private async begin(carried: Held | undefined, definition: AnyTaskDefinition | undefined): Promise<void> {
    const { settings, job } = this
    const { ledger, onFinal } = settings
    const found = carried ?? await ledger.patience.retry(() => ledger.load(job.taskId))
    // Never acknowledged, deleted or expired.
    if (!found) return
    if (!definition) return finish(settings, found, this.retentionMs, failed(failureOf('unknown_task')))
    const begun = await ledger.move(found, begin, true)
    if (!begun) return
    // Cancelled, or done by a run whose process died before saying so.
    if (isFinal(begun.record.state)) return onFinal(begun.record)
    if (!begun.moved) return
    return this.work(definition, begun)
  }

  private work(definition: AnyTaskDefinition, begun: Held): MaybePromise<void> {
    const { job, attempt, settings: { maxResultBytes } } = this
    this.held = begun
    this.fence = begun.record.attempt
    const outcome = runOnce(definition, job.input, {
      taskId: job.taskId, attempt: this.fence, lastAttempt: attempt.lastAttempt, owner: begun.record.owner,
      context: job.context, progress: this.report, stop: this.stop, timeoutMs: definition.timeoutMs, maxResultBytes,
    })
    return isPending(outcome) ? outcome.then((late) => this.end(late)) : this.end(outcome)
  }

  private readonly report: TaskContext['progress'] = (done, total, message) => {
    if (this.over) return
    this.writer ??= new ProgressWriter(async (progress) => { this.see(await this.write({ progress })) }, this.settings.progressIntervalMs)
    this.writer.report(done, total, message)
  }

  private end(outcome: Outcome): MaybePromise<void> {
    this.over = true
    const progress = this.writer?.close()
    if (isPending(progress)) return progress.then((last) => this.conclude(outcome, last))
    return this.conclude(outcome, progress)
  }

  private conclude(outcome: Outcome, progress: TaskProgress | undefined): MaybePromise<void> {
    const { settings, job, attempt } = this
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
    const now = this.write(ended(endingOf(outcome), progress, this.retentionMs), true)
    return isPending(now) ? now.then((late) => this.concluded(late)) : this.concluded(now)
  }

  private concluded(now: Moved | undefined): MaybePromise<void> {
    this.see(now)
    // Also when the record was final already: it may have been an earlier try of this very write.
    if (this.held && isFinal(this.held.record.state)) return this.settings.onFinal(this.held.record)
  }

  /** Writes a change unless a later run or a cancel came first. */
  private write(to: TaskChange, patient = false): MaybePromise<Moved | undefined> {
    if (!this.held) return undefined
    const now = this.settings.ledger.move(this.held, (record) => (
      record.attempt === this.fence && record.state === 'processing' ? to : undefined
    ), patient)
    if (!this.unwritten) return now
    return isPending(now) ? now.then((late) => this.orAnew(late, to, patient)) : this.orAnew(now, to, patient)
  }

  /** A claim is made anew where the record still waits: somebody wrote to it, but no other run. */
  private orAnew(now: Moved | undefined, to: TaskChange, patient: boolean): MaybePromise<Moved | undefined> {
    if (!now || now.moved || now.record.state !== 'queued' || now.record.attempt !== this.fence - 1) return now
    return this.writeAnew(now, to, patient)
  }

  private async writeAnew(found: Held, to: TaskChange, patient: boolean): Promise<Moved | undefined> {
    const startedAt = this.held?.record.startedAt
    const begun = await this.settings.ledger.move(found, (record) => (
      record.attempt === this.fence - 1 && record.state === 'queued' ? { ...begin(record), startedAt } : undefined
    ), patient)
    if (!begun) return undefined
    // Not moved, and yet begun as we wanted it: by our write at the end of the turn, or by an earlier try whose answer was lost.
    if (!begun.moved && (begun.record.state !== 'processing' || begun.record.attempt !== this.fence)) return begun
    this.see(begun)
    return this.write(to, patient)
  }

  /** Takes note of what a write came to, and stops this run when another has taken over. */
  private see(now: Moved | undefined): void {
    if (now) this.held = now
    if (now?.moved) this.unwritten = false
    if (!now || now.record.attempt !== this.fence || isFinal(now.record.state)) this.stop.abort(CANCELLED)
  }

  /** Whoever cancelled this run tells of it, unless its process died first: then it is told of here. */
  private async tellOfEnd(): Promise<void> {
    const { ledger } = this.settings
    const now = await ledger.patience.retry(() => ledger.load(this.job.taskId))
    if (now && (now.record.callback ?? now.record.keeps) !== undefined && isFinal(now.record.state)) await this.settings.onFinal(now.record)
  }

  private async giveBack(progress: TaskProgress | undefined, why: string): Promise<void> {
    const now = await this.write({ progress, state: 'queued' }, true)
    this.see(now)
    // Not moved, and yet as we wanted it: an earlier try of this very write landed, and its answer was lost.
    if (now?.record.state === 'queued' && now.record.attempt === this.fence) throw new AttemptFailed(why)
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

/** What the queue sees of a failed try: enough for a log line, nothing that was masked. */
export class AttemptFailed extends Error {
  override readonly name = 'AttemptFailed'
}

/** The change that a failure makes of a record. */
export function failed({ status, ...error }: Failure): Ending {
  return { state: 'failed', error, errorStatus: status }
}
