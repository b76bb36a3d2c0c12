import type { Queue } from '../../queues/queue.js'
import { isStoreUnavailable } from '../../stores/store.js'
import type { TaskIndex } from '../../stores/task-index.js'
import type { ExecutorSettings } from './attempt.js'
import type { Executor } from './execute.js'
import { elapsed } from '../record/elapsed.js'
import { jobId, newJobName, taskOf } from '../record/job-id.js'
import { isAlive, type Leases } from './leases.js'
import type { Held } from '../record/ledger.js'
import type { TaskRecord } from '../record/record.js'
import { isFinal } from '../record/state.js'
import { TaskJob } from '../record/task-job.js'
import { tell } from '../record/tell.js'
import { readWork, type Work } from '../record/work.js'

/** Entries that are taken at once, and at most in one sweep of one process. */
const PAGE = 100
const MAX_LOOKS = 1000
/**
 * How long a run of an unknown definition may take: the default of `defineTask`, in milliseconds.
 */
const UNKNOWN_MS = 600_000

/** What a sweep needs. */
export interface SweepSettings extends Pick<ExecutorSettings, 'ledger' | 'definitions' | 'identity' | 'onError' | 'onFinal'> {
  readonly index: TaskIndex
  readonly queue: Queue
  /** Time between two looks at one task, in milliseconds. */
  readonly sweepMs: number
  readonly executor: Pick<Executor, 'fail' | 'interrupt'>
  readonly leases: Leases | undefined
}

/**
 * Looks through the index of unfinished tasks for those whose job was lost, and enqueues them again
 * or fails them. Runs in each worker process at random times; the index gives each entry to one of
 * them.
 */
export class Sweep {
  private timer: ReturnType<typeof setTimeout> | undefined
  private sweeping: Promise<void> | undefined
  private closed = false

  /**
   * Sweeps at once, unless the store is of this process alone: that one holds no task before this
   * process accepts one. A Worker has no timers while its module is loaded.
   */
  constructor(private readonly settings: SweepSettings) {
    if (settings.ledger.store.shared) this.start()
  }

  /** Sweeps from now on. Does nothing if it does so already. */
  start(): void {
    if (this.timer === undefined) this.arm()
  }

  /** Sweeps no more, and waits for the look that goes on. */
  async close(): Promise<void> {
    this.closed = true
    clearTimeout(this.timer)
    await this.sweeping
  }

  private arm(): void {
    if (this.closed) return
    this.timer = setTimeout(() => {
      // The index or the store is away: the next sweep finds the same entries.
      this.sweeping = this.run().catch(() => undefined).then(() => {
        this.sweeping = undefined
        this.arm()
      })
    }, this.settings.sweepMs * (0.5 + Math.random() / 2)).unref()
  }

  private async run(): Promise<void> {
    const { index, sweepMs } = this.settings
    for (let looks = 0; looks < MAX_LOOKS; looks += PAGE) {
      const entries = await index.take(PAGE, sweepMs)
      for (const entry of entries) {
        if (this.closed) return
        await this.look(entry)
      }
      if (entries.length < PAGE) return
    }
  }

  private async look(entry: string): Promise<void> {
    const { ledger, queue, index, onFinal } = this.settings
    try {
      const held = await ledger.load(taskOf(entry))
      // Gone, or another task under the same id, or enqueued anew: those have entries of their own.
      if (!held || jobId(held.record) !== entry) return index.remove(entry)
      const { record } = held
      // Its process died, or the store failed, before all that hangs on its end was done.
      if (isFinal(record.state)) return await onFinal(record)
      if (record.holder !== undefined && record.holder !== ledger.holder) return await this.lookAfter(record, record.holder)
      if (!await queue.has(entry)) await this.heal(held)
    } catch (error) {
      if (!isStoreUnavailable(error)) tell(this.settings, error, { taskId: taskOf(entry), name: 'longhaul.sweep' }, 0)
    }
  }

  /** The task is in the in-process queue of another process. */
  private async lookAfter(record: TaskRecord, holder: string): Promise<void> {
    const { leases, executor, ledger } = this.settings
    if (leases) return leases.see(record)
    // The queue was changed: a process of before may still run what it holds.
    if (!await isAlive(ledger.store, holder)) await executor.interrupt(record.id, holder)
  }

  /** There is a record without a job. */
  private async heal(held: Held): Promise<void> {
    const { ledger, queue, executor, definitions } = this.settings
    const { record } = held
    if (!queue.durable) return executor.fail(held, 'task_interrupted')
    if (record.state === 'queued') {
      return record.work === undefined ? this.lose(held) : this.enqueueAnew(held, readWork(record.work))
    }
    // Its worker may live, and write the end of its run without a job. It has the time that a run
    // may take.
    const { timeoutMs = UNKNOWN_MS } = definitions.get(record.name) ?? {}
    if (await elapsed(ledger.store, `lost:${jobId(record)}:${record.attempt}`, timeoutMs) >= timeoutMs) await this.lose(held)
  }

  private async lose(held: Held): Promise<void> {
    this.report(held.record, 'its input went with it, so the task has failed')
    await this.settings.executor.fail(held, 'task_lost')
  }

  /** Under a new job name, so that the lost job does nothing should it turn up. */
  private async enqueueAnew(held: Held, { input, context, attempts, backoff }: Work): Promise<void> {
    const { ledger, index, queue, identity, sweepMs } = this.settings
    const { record: { id: taskId, name, job: lost } } = held
    const job = newJobName()
    const entry = jobId({ id: taskId, job })
    // Listed first: whenever this process dies, the record's job has an entry.
    await index.add(entry, sweepMs)
    const moved = await ledger.move(held, (record) => (record.job === lost && record.state === 'queued' ? { job } : undefined))
    index.remove(jobId(moved?.moved ? held.record : { id: taskId, job }))
    if (!moved?.moved) return
    this.report(moved.record, 'it was enqueued again')
    const anew = new TaskJob({ taskId, job, name, input, context, store: await identity.read() })
    anew.carry(moved)
    // Should this fail, the next look finds no job.
    await queue.enqueue(anew, { attempts, backoff })
  }

  private report({ id, name, attempt }: TaskRecord, what: string): void {
    tell(this.settings, new Error(`The queue has lost the job of this task; ${what}`), { taskId: id, name }, attempt)
  }
}
