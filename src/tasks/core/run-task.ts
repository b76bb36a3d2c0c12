import { httpError, isHttpError } from '../../http/errors.js'
import { readFailure } from '../../http/failure.js'
import type { TaskRun } from '../../engine/engine.js'
import { isRunReplaced, isWorkerClosing } from '../../engine/runs.js'
import type { StoredTask } from '../../engine/task.js'
import { after, isPending, type MaybePromise, Sequence } from '../../runtime/maybe-promise.js'
import type { Linked, LinkedList } from '../../runtime/collections.js'
import { within } from '../../runtime/timers.js'
import { retryDelay, type AnyTaskDefinition } from '../definition/define.js'
import type { Checkpoint, TaskContext } from '../definition/run-context.js'
import { UNDECLARED } from '../definition/json-values.js'
import { droppedFileKeys, fileRunOf, withFileRun } from '../record/outside.js'
import {
  detailsOf, historyAfter, withFailure, type Details, type Failure, type TaskProgress,
} from '../record/details.js'
import { publishStep, reportError, taskChannel } from '../record/diagnostics.js'
import { failureOf, isPermanent, toFailure } from '../run/failure.js'
import { NO_FILES, RunFiles } from '../run/run-files.js'
import { deleteBlobs } from '../../stores/blob-rules.js'
import {
  errorOf, failedOutcome, holdInput, runOnce, toInput, type Outcome, type RunOptions,
} from '../run/run.js'
import { ProgressWriter, openCheckpoint } from './run-saves.js'
import { Stop } from '../run/stop.js'
import {
  MARGIN_MS, hasOutside, isFinalTask, outsideFiles, publishCommitted, type TaskCore,
} from './task-core.js'

/** Time that a task may wait for a run that takes its files over, in milliseconds. */
const FILES_WAIT_MS = 86_400_000
/** Delay before a process that cannot run a task sees it again: minimum and maximum. */
const RETURN_MS = 1000
const MAX_RETURN_MS = 30_000
/** Delay of a run that finds no memory for its input, in milliseconds. */
const NO_MEMORY_MS = 500

/** One run of one task, from its input to its outcome. */
export class RunningTask implements Linked<RunningTask> {
  previous: RunningTask | undefined = undefined
  next: RunningTask | undefined = undefined
  /** The task after the latest change of this run. */
  private task: StoredTask
  private details: Details
  private readonly stop: Stop
  private progress: ProgressWriter | undefined
  private files: RunFiles | undefined
  private isOver = false
  private writes: Sequence | undefined

  /** @param all - the runs of this process. This one is among them until it has ended. */
  constructor(
    private readonly core: TaskCore, private readonly run: TaskRun,
    private readonly all: LinkedList<RunningTask>,
  ) {
    all.push(this)
    this.task = run.task
    this.details = this.withCrash(detailsOf(run.task))
    this.stop = new Stop(run)
  }

  /** Stops the run, because this process closes. It may continue for `graceMs`. */
  abort(reason: unknown, graceMs: number): void {
    this.stop.abort(reason, graceMs)
  }

  get isResumable(): boolean {
    const { core: { engine }, task: { name } } = this
    return engine.durable && this.core.definition(name)?.checkpoint !== undefined
  }

  /** Performs the run. Never rejects: if the engine fails for long, the run ends with its lease. */
  async perform(): Promise<void> {
    const { core, run, task: { id: taskId, name, attempt, crashes } } = this
    const memory = holdInput(run.input.parsedBytes)
    if (this.task.run === 1 && taskChannel.hasSubscribers) publishCommitted(this.task)
    try {
      if (memory === undefined) return await this.postpone()
      if (run.crashed && !await this.noteCrash()) return
      if (crashes >= core.settings.maxCrashes) return await this.end({ failure: failureOf('task_lost') })
      const definition = core.definition(name)
      if (definition === undefined) return await this.giveBack(unknownTask(name))
      let input = run.input.value as never
      if (definition.input !== undefined) {
        const valid = await this.validate(definition, input)
        if (valid === undefined) return
        input = valid.input
      }
      if (taskChannel.hasSubscribers) publishStep('started', this.task)
      const checkpoint = definition.checkpoint === undefined
        ? UNDECLARED : await this.openCheckpoint(definition)
      const started = this.start(definition, input, checkpoint)
      const outcome = isPending(started) ? await started : started
      this.isOver = true
      this.stop.end()
      const progress = this.progress && await this.progress.close()
      if (progress !== undefined) this.details = { ...this.details, progress }
      const concluded = this.conclude(definition, this.files?.check(outcome) ?? outcome)
      if (isPending(concluded)) await concluded
    } catch (error) {
      reportError(core.settings, error, { taskId, name }, attempt)
    } finally {
      this.stop.end()
      memory?.release()
      this.all.remove(this)
    }
  }

  /** Gives the task back until there is memory for its input. Another one may have the place. */
  private async postpone(): Promise<void> {
    await this.core.changeRun(this.task, {
      status: 'queued', isGivenBack: true, isHidden: true, delayMs: NO_MEMORY_MS,
    })
  }

  /** Validates the input by the schema. If it is not valid, ends the run and returns `undefined`. */
  private async validate(
    definition: AnyTaskDefinition, value: unknown,
  ): Promise<{ readonly input: never } | undefined> {
    try {
      const { name, timeoutMs } = definition
      return { input: await within(toInput(definition, value), timeoutMs, () => (
        httpError('task_timeout', { cause: new Error(`The schema of ${name} took longer than ${timeoutMs} ms`) })
      )) }
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
    const { task: { id: taskId, attempt, owner }, details: { context, failures = 0 }, stop } = this
    const { tracing, maxResultBytes } = this.core.settings
    this.files = this.openFiles(definition)
    const options: RunOptions = {
      taskId, attempt, owner, context, stop, checkpoint,
      lastAttempt: failures + 1 >= definition.attempts,
      progress: (done, total, message) => { this.report(done, total, message) },
      files: this.files ?? NO_FILES,
      timeoutMs: definition.timeoutMs, maxResultBytes,
    }
    const begin = (context: TaskContext): unknown => definition.run(input, context)
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
      if (outcome.kind === 'aborted') return await this.endAborted(outcome.reason)
      const { cause, failure } = outcome
      // An error that clients see as it is was thrown on purpose, so the application need not know it.
      if (!readFailure(cause).expected) {
        reportError(core.settings, cause, { taskId: task.id, name: task.name }, task.attempt)
      }
      const failures = (this.details.failures ?? 0) + 1
      if (failures >= definition.attempts || isPermanent(cause)) return await this.end({ failure })
      await this.wait({
        details: { ...this.history('queued', failure), failures },
        delayMs: retryDelay(definition.backoff, failures),
      })
    } finally {
      await files?.discard()
    }
  }

  private async endAborted(reason: unknown): Promise<void> {
    if (isRunReplaced(reason)) return
    const failure = failureOf('task_interrupted')
    if (!isWorkerClosing(reason) || !this.core.engine.durable) return this.end({ failure })
    await this.wait({ details: this.history('queued', failure), delayMs: 0 })
  }

  private end({ result, failure }: { result?: string, failure?: Failure }): MaybePromise<void> {
    const { core, files, task } = this
    const status = failure === undefined ? 'completed' : 'failed'
    const recorded = failure === undefined ? files?.recorded(this.details) : undefined
    const ended = withFailure(this.history(status, failure), failure)
    const { callback } = ended
    const details = callback === undefined && recorded === undefined ? ended : {
      ...ended, ...recorded, ...callback && { callback: { ...callback, state: 'pending' as const } },
    }
    return after(
      hasOutside(details) ? outsideFiles(core, task, details, status) : undefined,
      (kept) => after(core.changeRun(task, {
        status, result, files: kept, details, keepMs: core.retentionMs(task.name),
        callbackMs: callback && 0,
      }), ({ task: now }) => this.afterEnd(now, result)),
    )
  }

  /** @param now - the task as it is, which a lost reply to an earlier try may have ended */
  private afterEnd(now: StoredTask | undefined, result: string | undefined): MaybePromise<void> {
    const { core, files } = this
    if (now) this.task = now
    const cleaned = now && isFinalTask(now) && hasOutside(detailsOf(now))
      ? core.cleanUp(now) : undefined
    // Not if the change rejects: then nobody knows whether the end was written, and the files stay.
    const isUnused = result !== undefined && now?.status !== 'completed'
    return after(cleaned, () => (isUnused ? files?.discard() : undefined))
  }

  private async wait(
    { details, delayMs }: { readonly details: Details, readonly delayMs: number },
  ): Promise<void> {
    await this.core.changeRun(this.task, { status: 'queued', details, delayMs })
  }

  /**
   * Gives the task back, because this process cannot run it: it is older or newer than the one that
   * accepted the task. Fails it if no process could run it for `unknownTaskMs`.
   */
  private async giveBack(error: Error): Promise<void> {
    const { core, task, details } = this
    const now = await core.engine.now()
    const { returnedSince = now } = details
    const waitedMs = now - returnedSince
    if (!core.engine.durable || waitedMs >= core.settings.unknownTaskMs) {
      return this.end({ failure: toFailure(error) })
    }
    if (details.returnedSince === undefined) {
      const report = new Error(`${error.message} The task was given back.`, { cause: error })
      reportError(core.settings, report, { taskId: task.id, name: task.name }, 0)
    }
    await core.changeRun(task, {
      status: 'queued', isGivenBack: true, isHidden: true,
      details: { ...details, returnedSince },
      // A quarter, because the next one that takes it may again be a process that cannot run it.
      delayMs: Math.min(Math.max(waitedMs / 4, RETURN_MS), MAX_RETURN_MS) * (1 - Math.random() / 4),
    })
  }

  /** Returns the details with the history after this run. */
  private history(
    status: 'queued' | 'completed' | 'failed', failure: Failure | undefined,
  ): Details {
    const { details, task, task: { attempt } } = this
    const attempts = historyAfter(task, { status, attempt, finishedAt: undefined }, failure)
    return attempts === undefined && details.returnedSince === undefined
      ? details : { ...details, returnedSince: undefined, attempts }
  }

  /** Returns details whose history has the run before this one, if that was lost. */
  private withCrash(details: Details): Details {
    const { crashed, task: { attempt } } = this.run
    if (crashed === undefined) return details
    const after = { status: 'processing' as const, attempt, finishedAt: undefined }
    return { ...details, attempts: historyAfter(crashed, after, undefined) }
  }

  /** Stores the history with the run before this one. Returns `false` if this run was replaced. */
  private async noteCrash(): Promise<boolean> {
    const { moved, task } = await this.core.changeRun(this.task, { details: this.details })
    if (task) this.task = task
    return moved
  }

  private report(done: number, total: number | undefined, message: string | undefined): void {
    if (this.isOver) return
    this.progress ??= new ProgressWriter(
      (progress) => this.writeProgress(progress), this.core.settings.progressIntervalMs,
    )
    this.progress.report(done, total, message)
  }

  private openCheckpoint(definition: AnyTaskDefinition): Promise<Checkpoint> {
    return openCheckpoint({
      core: this.core, task: this.task, definition, stop: this.stop, saved: this.run.checkpoint,
      isOver: () => this.isOver,
    })
  }

  private async writeProgress(progress: TaskProgress): Promise<void> {
    await this.write({ progress })
  }

  /**
   * Writes properties of the details, one write after the other: each has what the one before wrote.
   * Every write raises the version, so a cancel that has read earlier details does not write them
   * back. Rejects if the run was replaced.
   */
  private write(changed: Partial<Details>): Promise<void> {
    this.details = { ...this.details, ...changed }
    this.writes ??= new Sequence()
    return this.writes.run(() => this.writeDetails())
  }

  private async writeDetails(): Promise<void> {
    const { core, task, details } = this
    const { moved, task: now } = await core.changeRun(task, { details })
    if (!moved || now === undefined) {
      this.stop.abort(new Error('The run was replaced by a later one'))
      throw httpError('attempt_replaced')
    }
    this.task = now
  }

  private openFiles(definition: AnyTaskDefinition): RunFiles | undefined {
    const { core: { settings: { blobs, maxFileBytes } }, core, task, stop } = this
    if (!definition.files || !blobs) return undefined
    const run = fileRunOf(task)
    const waitMs = definition.checkpoint ? FILES_WAIT_MS : 0
    return new RunFiles({
      taskId: task.id, run, blobs, stop,
      maxFileBytes: definition.maxFileBytes ?? maxFileBytes,
      ttlMs: waitMs + definition.timeoutMs + core.retentionMs(task.name) + MARGIN_MS,
      reserve: async (slots) => {
        const fileRuns = withFileRun(this.details.fileRuns, run, slots)
        const dropped = droppedFileKeys({ id: task.id, ...this.details }, fileRuns)
        await this.write({ fileRuns })
        await deleteBlobs(blobs, dropped)
      },
      keep: (names) => this.write({ blobs: names }),
    })
  }
}

function unknownTask(name: string): Error {
  return httpError('unknown_task', { message: `This process knows no task named ${name}.` })
}
