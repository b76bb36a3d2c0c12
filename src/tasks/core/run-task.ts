import { httpError, isHttpError } from '../../http/errors.js'
import { readFailure } from '../../http/failure.js'
import { claimRecord } from '../../idempotency/once.js'
import type { TaskRun } from '../../engine/engine.js'
import { isRunReplaced, isWorkerClosing, RunReplacedError } from '../../engine/runs.js'
import { isFinalStatus, type StoredTask, type TaskChange } from '../../engine/task.js'
import { after, isPending, type MaybePromise, Sequence } from '../../runtime/maybe-promise.js'
import { within } from '../../runtime/timers.js'
import { retryDelay, type AnyTaskDefinition, type OtherTasks } from '../definition/define.js'
import type { Ask, Checkpoint } from '../definition/run-context.js'
import { UNDECLARED } from '../definition/json-values.js'
import {
  droppedFileKeys, fileKey, fileRunOf, renewExternal, withFileRun,
} from '../record/outside.js'
import type { Inputs } from '../record/inputs.js'
import {
  detailsOf, dueCallback, externalNames, historyAfter, withFailure, workIdOf,
  type Details, type StoredTaskFailure,
} from '../record/details.js'
import { publishStep, taskChannel } from '../record/diagnostics.js'
import { failureOf, isPermanent, toFailure } from '../run/failure.js'
import { validInput, type Schema } from '../../schema/schema.js'
import { withLine } from '../record/run-log.js'
import { toStoredError, withError, withInput } from '../record/stored-failure.js'
import { NO_FILES } from '../definition/file-content.js'
import { NO_ASK } from '../definition/asks.js'
import { RunFiles } from '../run/run-files.js'
import { deleteBlobs, renewBlobs } from '../../stores/blob-rules.js'
import {
  errorOf, failedOutcome, holdInput, runOnce, RunContext, Stop, type Outcome,
} from '../run/run.js'
import { changeListed } from './change-task.js'
import { followUpOf } from './follow-up.js'
import { RunAsks } from './run-asks.js'
import { ProgressWriter, openCheckpoint } from './run-saves.js'
import {
  MARGIN_MS, hasOutside, outsideFiles, publishCommitted, type Moved, type OwnRun, type TaskCore,
} from './task-core.js'

/** Maximum time until a run takes the files of an earlier one over, in milliseconds. */
const FILES_WAIT_MS = 86_400_000
/** Delays before a task is tried again that a process could not run, in milliseconds. */
const RETURN_MS = 1000
const MAX_RETURN_MS = 30_000
/** Delay of a run without memory for its input, or while a request has its key, in milliseconds. */
const LATER_MS = 500

/** One run of one task, from its input to its outcome. */
export class RunningTask implements OwnRun {
  previous: OwnRun | undefined = undefined
  next: OwnRun | undefined = undefined
  /** The task after the latest change of this run. */
  private task: StoredTask
  private details: Details
  private readonly stop: Stop
  private progress: ProgressWriter | undefined
  private files: RunFiles | undefined
  private isOver = false
  /** True if the task waits for an answer, because this run has asked. */
  private hasAsked = false
  private writes: Sequence | undefined

  constructor(
    private readonly core: TaskCore, private readonly run: TaskRun,
  ) {
    core.running.push(this)
    this.task = run.task
    this.details = this.withCrash(detailsOf(run.task))
    this.stop = new Stop(run, core.context)
  }

  /** Aborts the run, which may continue for `graceMs`. */
  abort(reason: unknown, graceMs: number): void {
    this.stop.abort(reason, graceMs)
  }

  get isResumable(): boolean {
    const { core: { engine }, task: { name } } = this
    return engine.durable && this.core.definition(name)?.checkpoint !== undefined
  }

  /** Performs the run. Never rejects: if the engine fails for long, the run ends with its lease. */
  async perform(): Promise<void> {
    const { core, run, task: { name, crashes } } = this
    const memory = holdInput(run.input.parsedBytes)
    if (this.task.run === 1 && taskChannel.hasSubscribers) publishCommitted(this.task)
    try {
      // Another task may have the place until there is memory for the input.
      if (memory === undefined) return await this.beginLater()
      if (run.crashed) {
        const { moved, task } = await this.change({ details: this.details })
        if (!moved) return
        if (task) this.task = task
      }
      if (crashes >= core.settings.maxCrashes) return await this.end({ failure: failureOf('task_lost') })
      if (this.details.isKeyShared && !await this.hasKey()) return
      const definition = core.definition(name)
      if (definition === undefined) return await this.giveBack(unknownTask(name))
      let input = run.input.value as never
      if (definition.input !== undefined) {
        const valid = await this.validate(definition, definition.input, input)
        if (valid === undefined) return
        input = valid.input
      }
      if (taskChannel.hasSubscribers) publishStep('started', this.task)
      const checkpoint = definition.checkpoint === undefined
        ? UNDECLARED : await openCheckpoint({
          core, task: this.task, lease: run.lease, definition, stop: this.stop, saved: run.checkpoint,
          isOver: () => this.isOver,
          withParts: (parts) => (this.details = { ...this.details, parts }),
        })
      const started = this.start(definition, input, checkpoint)
      const outcome = isPending(started) ? await started : started
      this.isOver = true
      this.stop.end()
      const progress = this.progress && await this.progress.close()
      if (progress !== undefined) this.details = { ...this.details, progress }
      const concluded = this.conclude(definition, this.files?.check(outcome) ?? outcome)
      if (isPending(concluded)) await concluded
    } catch (error) {
      core.report(error, this.task)
    } finally {
      this.stop.end()
      memory?.release()
      core.running.remove(this)
    }
  }

  /** Makes a change, unless another run of the task has begun. */
  private change(change: TaskChange): MaybePromise<Moved> {
    return this.core.persist(this.task, { lease: this.run.lease }, change)
  }

  private async beginLater(): Promise<void> {
    await this.change({ status: 'queued', isGivenBack: true, isHidden: true, delayMs: LATER_MS })
  }

  /**
   * A synchronous request that claimed the key just before this task was created does the work,
   * because it could not see the task. Returns `false` if there is such a request: the run begins
   * later, or the task ends.
   */
  private async hasKey(): Promise<boolean> {
    const { core, task: { key = '' } } = this
    const claim = await core.retry.run(() => claimRecord(core.settings.store, key).read())
    if (!claim) return true
    await (claim.response
      ? this.end({ failure: toFailure(httpError('idempotency_key_reused')) }) : this.beginLater())
    return false
  }

  /** Validates the input. If it is not valid, ends the run and returns `undefined`. */
  private async validate(
    definition: AnyTaskDefinition, schema: Schema, value: unknown,
  ): Promise<{ readonly input: never } | undefined> {
    try {
      const { name, timeoutMs } = definition
      const input = validInput(schema, value)
      return { input: (isPending(input) ? await within(input, timeoutMs, () => (
        httpError('task_timeout', { cause: new Error(`The schema of ${name} took longer than ${timeoutMs} ms`) })
      )) : input) as never }
    } catch (error) {
      const isForeign = isHttpError(error) && error.code === 'invalid_input'
      if (isForeign && this.core.engine.durable) await this.giveBack(error)
      else await this.conclude(definition, failedOutcome(error))
      return undefined
    }
  }

  /** Calls `run` of the definition. Never throws or rejects. */
  private start(
    definition: AnyTaskDefinition, input: never, checkpoint: Checkpoint,
  ): MaybePromise<Outcome> {
    const { task: { id: taskId, attempt, owner }, details: { context, external, failures = 0 }, stop } = this
    const { tracing, maxResultBytes, progressIntervalMs } = this.core.settings
    this.files = this.openFiles(definition)
    const facts = new RunContext({
      taskId, attempt, owner, external, context, checkpoint,
      lastAttempt: failures + 1 >= definition.attempts, workId: workIdOf(this.task),
      progress: (done, total, message, unit) => {
        if (this.isOver) return
        this.progress ??= new ProgressWriter((progress) => this.write({ progress }), progressIntervalMs)
        this.progress.report(done, total, message, unit)
      },
      // Without a write: the next change of the details has it.
      log: (line) => {
        if (!this.isOver) this.details = { ...this.details, log: withLine(this.details.log ?? [], attempt, line) }
      },
      files: this.files ?? NO_FILES, ask: definition.asks === undefined ? NO_ASK : this.openAsks(definition),
    }, stop)
    const options = { stop, timeoutMs: definition.timeoutMs, maxResultBytes }
    const begin = (): unknown => (
      definition.runForOperators === undefined
        ? definition.run(input, facts)
        : definition.runForOperators(otherTasks(this.core), input, facts)
    )
    if (tracing === undefined) return runOnce(definition, options, begin)
    const { task: { name, createdAt, startAt }, details: { trace } } = this
    const step = { name, taskId, attempt, trace, dueAt: attempt === 1 ? startAt ?? createdAt : undefined }
    return tracing.run(step, () => runOnce(definition, options, begin), errorOf)
  }

  private conclude(definition: AnyTaskDefinition, outcome: Outcome): MaybePromise<void> {
    return outcome.kind === 'completed'
      ? this.end({ result: outcome.result })
      : this.concludeOther(definition, outcome)
  }

  private async concludeOther(
    definition: AnyTaskDefinition, outcome: Exclude<Outcome, { kind: 'completed' }>,
  ): Promise<void> {
    const { core, files, task } = this
    try {
      if (outcome.kind === 'aborted') return await this.concludeAborted(definition, outcome.reason)
      const { cause, failure } = outcome
      // An error that clients see as it is was thrown on purpose, so the application need not know it.
      if (!readFailure(cause).expected) core.report(cause, task)
      const failures = (this.details.failures ?? 0) + 1
      if (failures >= definition.attempts || isPermanent(cause)) await this.end({ failure, cause })
      else {
        this.noteError(failure, cause)
        await this.change({
          status: 'queued', details: { ...this.history('queued', failure), failures },
          delayMs: retryDelay(definition.backoff, failures),
        })
      }
      if (outcome.timedOut) await this.cancelUnwanted(definition)
    } finally {
      await files?.discard()
    }
  }

  private async concludeAborted(definition: AnyTaskDefinition, reason: unknown): Promise<void> {
    if (this.hasAsked) return
    const { core } = this
    const failure = failureOf('task_interrupted')
    if (isWorkerClosing(reason) && core.engine.durable) {
      const details = this.history('queued', failure)
      await this.change({ status: 'queued', details, delayMs: 0 })
    } else if (!isRunReplaced(reason)) await this.end({ failure })
    await this.cancelUnwanted(definition)
  }

  /** Stops what this run has started in another system, unless a run of this or a later process needs it. */
  private async cancelUnwanted({ cancel }: AnyTaskDefinition): Promise<void> {
    if (cancel === undefined) return
    const { core, task } = this
    const now = await core.engine.read(task.id)
    const isWanted = now !== undefined && workIdOf(now) === workIdOf(task)
      && now.status !== 'cancelled' && now.status !== 'failed'
    if (!isWanted) await core.cancelWork(task)
  }

  /**
   * Adds the real error of this run to the details. Without `cause`, the real error is the failure
   * itself.
   */
  private noteError({ code: name, message }: StoredTaskFailure, cause: unknown): void {
    const { core: { settings: { storeErrors } }, details, task: { attempt } } = this
    if (!storeErrors) return
    const error = cause === undefined ? { name, message } : toStoredError(cause)
    this.details = { ...details, failure: withError(details.failure, attempt, error) }
  }

  private end(
    { result, failure, cause }: { result?: string, failure?: StoredTaskFailure, cause?: unknown },
  ): MaybePromise<void> {
    const { core, files, task } = this
    const status = failure === undefined ? 'completed' : 'failed'
    if (failure !== undefined) this.noteError(failure, cause)
    const { failure: errors } = this.details
    if (errors) this.details = { ...this.details, failure: failure && withInput(errors, this.run.input.text) }
    const recorded = failure === undefined ? files?.recorded(this.details) : undefined
    const ended = withFailure(this.history(status, failure), failure)
    const { callback } = ended
    const followUp = failure && followUpOf(core, this.run, ended, failure)
    const details = callback === undefined && recorded === undefined && followUp === undefined ? ended : {
      ...ended, ...recorded, ...callback && { callback: dueCallback(callback) }, ...followUp && { followUp },
    }
    return after(
      hasOutside(details) ? outsideFiles(core, task, details, status) : undefined,
      (kept) => after(this.change({
        status, result, files: kept, details, keepMs: core.retentionMs(task.name, status),
        callbackMs: (callback ?? followUp) && 0,
      }), ({ task: now }) => this.afterEnd(now, result)),
    )
  }

  /** @param now - the task as it is now; an earlier try whose reply was lost may have ended it */
  private afterEnd(now: StoredTask | undefined, result: string | undefined): MaybePromise<void> {
    const { core, files } = this
    if (now) this.task = now
    const cleaned = now && isFinalStatus(now.status) && hasOutside(detailsOf(now))
      ? core.cleanUp(now) : undefined
    // Not if the change rejects: then nobody knows whether the end was written, and the files stay.
    const isUnused = result !== undefined && now?.status !== 'completed'
    return after(cleaned, () => (isUnused ? files?.discard() : undefined))
  }

  /** Gives back a task for an older or newer process. Fails it after `unknownTaskMs`. */
  private async giveBack(error: Error): Promise<void> {
    const { core, task, details } = this
    const now = await core.engine.now()
    const { returnedSince = now } = details
    const waitedMs = now - returnedSince
    if (!core.engine.durable || waitedMs >= core.settings.unknownTaskMs) {
      return this.end({ failure: toFailure(error), cause: error })
    }
    if (details.returnedSince === undefined) {
      const report = new Error(`${error.message} The task was given back.`, { cause: error })
      core.report(report, { ...task, attempt: 0 })
    }
    await this.change({
      status: 'queued', isGivenBack: true, isHidden: true,
      details: { ...details, returnedSince },
      delayMs: Math.min(Math.max(waitedMs / 4, RETURN_MS), MAX_RETURN_MS) * (1 - Math.random() / 4),
    })
  }

  private history(
    status: 'queued' | 'completed' | 'failed', failure: StoredTaskFailure | undefined,
  ): Details {
    const { details, task, task: { attempt } } = this
    const attempts = historyAfter(task, { status, attempt, finishedAt: undefined }, failure)
    return attempts === undefined && details.returnedSince === undefined
      ? details : { ...details, returnedSince: undefined, attempts }
  }

  /** If the run before this one was lost, adds it to the history. */
  private withCrash(details: Details): Details {
    const { crashed, task: { attempt } } = this.run
    if (crashed === undefined) return details
    const after = { status: 'processing' as const, attempt, finishedAt: undefined }
    return { ...details, attempts: historyAfter(crashed, after, undefined) }
  }

  /** Changes the details, one write after the other. Rejects if the run was replaced. */
  private write(changed: Partial<Details>): Promise<void> {
    this.details = { ...this.details, ...changed }
    this.writes ??= new Sequence()
    return this.writes.run(async () => {
      const { moved, task: now } = await this.change({ details: this.details })
      if (!moved || now === undefined) {
        this.stop.abort(new Error('The run was replaced by a later one'))
        throw httpError('attempt_replaced')
      }
      this.task = now
    })
  }

  private openAsks(definition: AnyTaskDefinition): Ask {
    const { core, stop, details: { inputs = {}, callback } } = this
    // That of a question which nobody has answered in time.
    if (callback?.state === 'pending') this.details = { ...this.details, callback: { ...callback, state: 'waiting' } }
    const asks = new RunAsks({
      core, definition, stop, inputs, isOver: () => this.isOver,
      end: (asked, delayMs) => this.askFor(definition, asked, delayMs),
    })
    return (key, question) => asks.ask(key, question)
  }

  /** Ends the run, so that the task waits for answers. */
  private async askFor(definition: AnyTaskDefinition, inputs: Inputs, delayMs: number): Promise<void> {
    const { core, task, stop } = this
    const progress = await this.progress?.close()
    const { callback, ...details } = this.details
    const keepMs = delayMs + core.settings.pendingMs
    await this.renewOutside(definition, keepMs)
    const { moved, task: now } = await this.change({
      status: 'input_required', delayMs, keepMs, callbackMs: callback && 0,
      details: {
        ...details, inputs, returnedSince: undefined, ...progress && { progress },
        ...callback && { callback: dueCallback(callback) },
      },
    })
    // The reply to an earlier try may have been lost.
    this.hasAsked = moved || (now?.status === 'input_required' && now.run === task.run)
    stop.leave(this.hasAsked ? new Error('The run has ended, because the task waits for an answer') : new RunReplacedError())
  }

  /** Renews the data of the task outside of the engine, for a wait. Throws 410 `gone`. */
  private async renewOutside(definition: AnyTaskDefinition, keepMs: number): Promise<void> {
    const { core, core: { settings: { blobs } }, task, task: { id, name }, details } = this
    const ttlMs = keepMs + core.longestRetentionMs(name) + MARGIN_MS
    const resources = { names: externalNames(details), task: { ...task, details } }
    if (!await renewExternal(core.context, definition, resources, ttlMs)) {
      throw httpError('gone', { message: 'The input of this task is no longer stored.' })
    }
    const files = details.blobs ?? []
    if (blobs && files.length > 0) await renewBlobs(blobs, files.map((file) => fileKey(id, file)), ttlMs)
  }

  private openFiles(definition: AnyTaskDefinition): RunFiles | undefined {
    const { core: { settings: { blobs, maxFileBytes } }, core, task, stop } = this
    if (!definition.files || !blobs) return undefined
    const run = fileRunOf(task, this.run.lease)
    const { checkpoint, partialFiles = false } = definition
    const waitMs = checkpoint || partialFiles ? FILES_WAIT_MS : 0
    return new RunFiles({
      taskId: task.id, run, blobs, stop,
      maxFileBytes: definition.maxFileBytes ?? maxFileBytes,
      ttlMs: waitMs + definition.timeoutMs + core.longestRetentionMs(task.name) + MARGIN_MS,
      reserve: async (slots) => {
        const fileRuns = withFileRun(this.details.fileRuns, run, slots)
        const dropped = droppedFileKeys({ id: task.id, ...this.details }, fileRuns)
        await this.write({ fileRuns })
        await deleteBlobs(blobs, dropped)
      },
      keepsEach: partialFiles,
      keep: async (kept) => {
        const earlier = this.details.blobs ?? []
        const names = kept.map(({ blob }) => blob)
        const files = partialFiles ? kept.map(({ blob: _, ...file }) => file) : undefined
        await this.write({ blobs: names, files })
        const unused = earlier.filter((name) => !names.includes(name))
        await deleteBlobs(blobs, unused.map((name) => fileKey(task.id, name)))
      },
    })
  }
}

function otherTasks(core: TaskCore): OtherTasks {
  return {
    engine: core.engine,
    change: (action, listed, key) => changeListed(core, action, listed, key),
    report: (error, task) => { core.report(error, task) },
  }
}

function unknownTask(name: string): Error {
  return httpError('unknown_task', { message: `The server does not know the work ${name} of this task any more.` })
}
