import { isPending, type MaybePromise } from '../../runtime/maybe-promise.js'
import { httpError, isHttpError } from '../../http/errors.js'
import { readFailure } from '../../http/failure.js'
import { type Attempt, type Job, isQueueClosing } from '../../queues/queue.js'
import type { AnyTaskDefinition, TaskContext } from '../definition/define.js'
import { elapsed } from '../record/elapsed.js'
import { failureOf, isPermanent, toFailure, type Failure } from './failure.js'
import type { HandBacks } from './hand-back.js'
import { isJobOf } from '../record/job-id.js'
import type { Held, Ledger, Moved } from '../record/ledger.js'
import { Lookout } from './lookout.js'
import { ProgressWriter } from './progress.js'
import type { TaskChange, TaskProgress, TaskRecord } from '../record/record.js'
import { failedOutcome, runJudged, toInput, type Outcome } from './run.js'
import { isFinal } from '../record/state.js'
import type { Stop } from './stop.js'
import type { StoreIdentity } from '../record/store-identity.js'
import { TaskJob } from '../record/task-job.js'
import { tell, type OnTaskError } from '../record/tell.js'

/** What an executor needs to know. */
export interface ExecutorSettings {
  readonly ledger: Ledger
  readonly definitions: ReadonlyMap<string, AnyTaskDefinition>
  readonly durable: boolean
  readonly retentionMs: number
  /** How long a task that no worker can run is handed back before it fails. */
  readonly unknownTaskMs: number
  readonly maxResultBytes: number
  readonly progressIntervalMs: number
  readonly identity: StoreIdentity
  readonly handBacks: HandBacks
  readonly onError: OnTaskError
  /**
   * Called when a record is found final or has become so by this process's hand; may be called
   * again for one record.
   */
  readonly onFinal: (record: TaskRecord) => MaybePromise<void>
}

/** The abort reason of a run whose task was cancelled, or taken over by a later run. */
export const CANCELLED = new Error('The task was cancelled')

/** A definition, and what its schema made of the input or why it refused it. */
interface Prepared {
  readonly definition: AnyTaskDefinition
  readonly input: never
  readonly error?: unknown
}

/** One try of one job, from the record's `processing` to wherever it gets. */
export class TaskAttempt {
  private held: Held | undefined
  /** Our moves hold only while no later run came in between: its attempt would be larger. */
  private fence = Infinity
  private writer: ProgressWriter | undefined
  private over = false

  constructor(
    private readonly settings: ExecutorSettings, private readonly retentionMs: number,
    private readonly job: Job, private readonly attempt: Attempt, readonly stop: Stop,
  ) {}

  /**
   * Rejects when there has to be another try: with an `AttemptFailed` after a failure, with a
   * `HandBackError` when another process may be able to run it.
   */
  async perform(): Promise<void> {
    const { ledger } = this.settings
    if (!ledger.store.shared) return this.run()
    this.stop.mind()
    // Others write to the store: a cancel in another process is seen by its write to the record.
    const lookout = new Lookout(ledger, this.job.taskId, (now) => {
      if (!now || !isJobOf(this.job, now) || now.attempt > this.fence || isFinal(now.state)) this.stop.abort(CANCELLED)
    })
    try {
      await this.run()
    } finally {
      lookout.end()
    }
  }

  private async run(): Promise<void> {
    const { job, attempt, settings: { definitions, durable } } = this
    const definition = definitions.get(job.name)
    if (!definition) return this.refuse(httpError('unknown_task'), `This process knows no task named ${job.name}`)
    const prepared = this.prepare(definition)
    const { input, error } = isPending(prepared) ? await prepared : prepared
    if (durable && isHttpError(error) && error.code === 'invalid_input') {
      return this.refuse(error, `The schema of ${job.name} in this process refuses input that another process accepted`)
    }
    // A later attempt knows that others have written to the record since.
    const begun = await this.begin(attempt.attempt === 1 ? TaskJob.unload(job) : undefined)
    if (begun) await this.work({ definition, input, error }, begun)
  }

  /**
   * Judges the input before the run begins, so that a job which this process cannot run uses up no
   * attempt.
   */
  private prepare(definition: AnyTaskDefinition): MaybePromise<Omit<Prepared, 'definition'>> {
    const failed = (error: unknown) => ({ input: undefined as never, error })
    try {
      const input = toInput(definition, this.job.input)
      if (!isPending(input)) return { input }
      return inTime(input, definition).then((judged) => ({ input: judged }), failed)
    } catch (error) {
      return failed(error)
    }
  }

  /** Writes that the run has begun. `undefined` when there is nothing to run. */
  private async begin(carried: Held | undefined): Promise<Held | undefined> {
    const { job, settings: { ledger, onFinal } } = this
    const found = carried ?? await ledger.patience.retry(() => ledger.load(job.taskId))
    const begun = found && await ledger.move(found, (record) => (isJobOf(job, record) ? begin(record) : undefined), true)
    if (!begun) return this.gone(carried?.record)
    // A leftover: the task was enqueued anew, or its id has another task by now.
    if (!isJobOf(job, begun.record)) return undefined
    if (begun.moved) return begun
    // Cancelled, or done by a run whose process died before saying so.
    if (isFinal(begun.record.state)) await onFinal(begun.record)
    return undefined
  }

  /**
   * There is no record: it was never acknowledged, was deleted or expired; or it is in the store of
   * another application.
   */
  private async gone(carried?: TaskRecord): Promise<undefined> {
    const { job, settings: { identity, handBacks } } = this
    const now = Date.now()
    if (carried && carried.expiresAt < now) return undefined
    if (!await identity.isForeign(job.store)) return undefined
    throw handBacks.of(job, 'The record of this task is in another store', carried ? now - carried.createdAt : 0)
  }

  /**
   * Hands back a job that this process cannot run; fails its task once nobody has been able to for
   * `unknownTaskMs`.
   */
  private async refuse(error: Error, why: string): Promise<void> {
    const { job, settings } = this
    const { ledger, durable, unknownTaskMs, onFinal, handBacks } = settings
    const held = await ledger.patience.retry(() => ledger.load(job.taskId))
    if (!held) return this.gone(TaskJob.unload(job)?.record)
    const { record } = held
    if (!isJobOf(job, record)) return
    if (isFinal(record.state)) return onFinal(record)
    // A run that begins starts the time anew.
    const stuckMs = durable ? await elapsed(ledger.store, `stuck:${job.id}:${record.attempt}`, unknownTaskMs) : unknownTaskMs
    if (stuckMs >= unknownTaskMs) return finish(settings, held, this.retentionMs, failed(toFailure(error)))
    throw handBacks.of(job, why, stuckMs, error)
  }

  private async work({ definition, input, error }: Prepared, begun: Held): Promise<void> {
    const { job, attempt, settings: { maxResultBytes } } = this
    this.held = begun
    this.fence = begun.record.attempt
    const outcome = error !== undefined ? failedOutcome(error) : await runJudged(definition, input, {
      taskId: job.taskId, attempt: this.fence, lastAttempt: attempt.lastAttempt, owner: begun.record.owner,
      context: job.context, progress: this.report, stop: this.stop, timeoutMs: definition.timeoutMs, maxResultBytes,
    })
    this.over = true
    await this.conclude(outcome, await this.writer?.close())
  }

  private readonly report: TaskContext['progress'] = (done, total, message) => {
    if (this.over) return
    this.writer ??= new ProgressWriter(async (progress) => { this.see(await this.write({ progress })) }, this.settings.progressIntervalMs)
    this.writer.report(done, total, message)
  }

  private async conclude(outcome: Outcome, progress: TaskProgress | undefined): Promise<void> {
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
    this.see(await this.write(ended(endingOf(outcome), progress, this.retentionMs), true))
    // Also when the record was final already: it may have been an earlier try of this very write.
    const { record } = this.held as Held
    if (isJobOf(job, record) && isFinal(record.state)) return settings.onFinal(record)
  }

  /** Writes a change unless a later run, a cancel or another task under this id came first. */
  private write(to: TaskChange, patient = false): MaybePromise<Moved | undefined> {
    if (!this.held) return undefined
    return this.settings.ledger.move(this.held, (record) => (
      isJobOf(this.job, record) && record.attempt === this.fence && record.state === 'processing' ? to : undefined
    ), patient)
  }

  /** Takes note of what a write came to, and stops this run when another has taken over. */
  private see(now: Moved | undefined): void {
    if (now) this.held = now
    if (!now || !isJobOf(this.job, now.record) || now.record.attempt !== this.fence || isFinal(now.record.state)) this.stop.abort(CANCELLED)
  }

  /**
   * Whoever cancelled this run tells of it, unless its process died first: then it is told of here.
   */
  private async tellOfEnd(): Promise<void> {
    const { job, settings: { ledger, onFinal } } = this
    const now = await ledger.patience.retry(() => ledger.load(job.taskId))
    if (!now || !isJobOf(job, now.record) || !isFinal(now.record.state)) return
    if ((now.record.callback ?? now.record.keeps) !== undefined) await onFinal(now.record)
  }

  private async giveBack(progress: TaskProgress | undefined, why: string): Promise<void> {
    const now = await this.write({ progress, state: 'queued' }, true)
    this.see(now)
    if (!now || !isJobOf(this.job, now.record)) return
    // Not moved, and yet as we wanted it: an earlier try of this very write landed, and its answer
    // was lost.
    if (now.record.state === 'queued' && now.record.attempt === this.fence) throw new AttemptFailed(why)
  }
}

const begin = (record: TaskRecord): TaskChange => ({
  state: 'processing', attempt: record.attempt + 1, startedAt: record.startedAt ?? Date.now(),
})

/** Rejects with `task_timeout` when a schema takes longer than a run may. */
async function inTime(judging: Promise<never>, { name, timeoutMs }: AnyTaskDefinition): Promise<never> {
  let timer: ReturnType<typeof setTimeout> | undefined
  const late = new Promise<never>((_, reject) => {
    const cause = new Error(`The schema of ${name} took longer than ${String(timeoutMs)} ms`)
    timer = setTimeout(() => { reject(httpError('task_timeout', { cause })) }, timeoutMs).unref()
  })
  try {
    return await Promise.race([judging, late])
  } finally {
    clearTimeout(timer)
  }
}

/**
 * Ends a record from outside of a run, unless its task was enqueued anew or its id has another one
 * by now.
 */
export async function finish(settings: ExecutorSettings, held: Held, retentionMs: number, to: Ending): Promise<void> {
  const { job } = held.record
  const change = ended(to, undefined, retentionMs)
  const now = await settings.ledger.move(held, (record) => (record.job === job ? change : undefined), true)
  if (now?.record.job === job && isFinal(now.record.state)) await settings.onFinal(now.record)
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
