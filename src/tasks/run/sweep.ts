import type { Queue } from '../../queues/queue.js'
import { poolOf } from '../../queues/queue-pools.js'
import { wasNotAccepted } from '../../idempotency/refusal.js'
import { isStoreUnavailable } from '../../stores/store.js'
import type { TaskIndex } from '../../stores/task-index.js'
import type { ExecutorSettings } from './executor-settings.js'
import type { Executor } from './execute.js'
import { enqueueCommitted, isEnqueuedLater } from '../intake/enqueue-committed.js'
import { remainingDelayMs } from '../intake/start-time.js'
import { elapsed } from '../record/elapsed.js'
import { isTaskId, jobId, newJobName, taskOf } from '../record/ids.js'
import { TaskJob } from '../record/job.js'
import { toListed } from '../record/listed.js'
import { isAlive, type Leases } from './leases.js'
import type { VersionedRecord } from '../record/ledger.js'
import type { TaskRecord } from '../record/record.js'
import { isFinal } from '../record/state.js'
import { reportError } from '../record/report-error.js'
import { loadWork, type Work } from '../record/work.js'

/** Number of entries that are taken at once. */
const PAGE_SIZE = 500
/** Number of entries that are checked at once. */
const CONCURRENCY = 10
/** Maximum number of entries in one sweep of one process. */
const MAX_ENTRIES = 10_000
/** Maximum factor by which checks of one task become less frequent while sweeps are full. */
const MAX_SLOWDOWN = 16
/** Number of tasks whose records are restored at once. */
const RESTORED_AT_ONCE = 100
/** Number of ids in one slice of the scan for lost entries. */
const SLICE_SIZE = 500
/** Maximum number of slices in one sweep. */
const MAX_SLICES = 1000
/**
 * Time between two sweeps of a store with transactions, and until the next attempt to enqueue a task
 * that was accepted in one. In milliseconds.
 */
const COMMITTED_MS = 2000
/** Time limit of a run whose definition is unknown: the default of `defineTask`. */
const UNKNOWN_TIMEOUT_MS = 600_000

/** Settings of a sweep. */
export interface SweepSettings extends Pick<ExecutorSettings, 'ledger' | 'definitions' | 'identity' | 'onError' | 'onFinal'> {
  readonly index: TaskIndex
  readonly queue: Queue
  /** Time between two checks of one task, in milliseconds. */
  readonly sweepMs: number
  readonly executor: Pick<Executor, 'fail' | 'interrupt'>
  readonly leases: Leases | undefined
}

/**
 * Checks the index of unfinished tasks for those whose job was lost. Enqueues them again, or fails
 * them. Runs in each worker process at random times. The index gives each entry to one process.
 */
export class Sweep {
  private timer: ReturnType<typeof setTimeout> | undefined
  private sweeping: Promise<void> | undefined
  private closed = false
  /** Time of the next repair of the index, on `performance.now()`. */
  private repairAt = 0
  /** Factor of the time between two checks of one task. */
  private slowdown = 1
  /**
   * Entries of tasks that were accepted in a transaction a moment ago. The process that accepted
   * them most likely enqueues them. The next sweep makes sure.
   */
  private young: string[] = []

  /**
   * Starts at once unless the store is in memory. That one has no task before this process accepts
   * one, and a Worker has no timers while its module is loaded.
   */
  constructor(private readonly settings: SweepSettings) {
    const { store } = settings.ledger
    if (store.shared || store.within) this.start()
  }

  /** Starts sweeping. Does nothing if it was started already. */
  start(): void {
    if (this.timer === undefined) this.startTimer()
  }

  /** Stops sweeping and waits for the check in progress. */
  async close(): Promise<void> {
    this.closed = true
    clearTimeout(this.timer)
    await this.sweeping
  }

  private startTimer(): void {
    if (this.closed) return
    this.timer = setTimeout(() => {
      // The index or the store is unavailable. The next sweep finds the same entries.
      this.sweeping = this.run().catch(() => undefined).then(() => {
        this.sweeping = undefined
        this.startTimer()
      })
    }, this.intervalMs * (0.5 + Math.random() / 2)).unref()
  }

  /** A task whose process died after the commit must not wait for long. */
  private get intervalMs(): number {
    const { sweepMs, ledger: { store } } = this.settings
    return store.within ? Math.min(sweepMs, COMMITTED_MS) : sweepMs
  }

  private async run(): Promise<void> {
    const { index, sweepMs } = this.settings
    const { young } = this
    this.young = []
    await this.checkAll(young, true)
    let count = 0
    let isFull = true
    while (isFull && count < MAX_ENTRIES && !this.closed) {
      const entries = await index.take(PAGE_SIZE, sweepMs * this.slowdown)
      await this.checkAll(entries, false)
      count += entries.length
      isFull = entries.length === PAGE_SIZE
    }
    // With more tasks than sweeps can check, each is checked less often, so that none is left out.
    this.slowdown = isFull
      ? Math.min(this.slowdown * 2, MAX_SLOWDOWN)
      : Math.max(this.slowdown / 2, 1)
    // Sweeps of a store with transactions are more frequent than the interval of one task.
    if (performance.now() < this.repairAt) return
    this.repairAt = performance.now() + sweepMs / 2
    await this.repairIndex()
  }

  /**
   * Restores entries that the index has lost, such as those of a failed-over server. Reads one
   * slice of the stored tasks, or up to 1000 slices if the index says that it misses many.
   */
  private async repairIndex(): Promise<void> {
    const { index } = this.settings
    for (let slice = 0; slice < MAX_SLICES && !this.closed; slice++) {
      const { ids, isUrgent } = await index.unlisted(SLICE_SIZE)
      for (let at = 0; at < ids.length; at += RESTORED_AT_ONCE) {
        await Promise.all(ids.slice(at, at + RESTORED_AT_ONCE).map((id) => this.restore(id)))
      }
      if (!isUrgent) return
    }
  }

  private async restore(id: string): Promise<void> {
    const { ledger, index, sweepMs } = this.settings
    const found = isTaskId(id) ? await ledger.load(id) : undefined
    if (!found) return
    await index.put(toListed(found.record))
    if (!isFinal(found.record.state)) await index.restore(jobId(found.record), sweepMs)
  }

  /** Checks entries, several at once. Stops early if this process shuts down. */
  private async checkAll(entries: readonly string[], isSecondTime: boolean): Promise<void> {
    const left = [...entries].reverse()
    const checkNext = async (): Promise<void> => {
      for (let entry = left.pop(); entry !== undefined && !this.closed; entry = left.pop()) {
        await this.check(entry, isSecondTime)
      }
    }
    await Promise.all(Array.from({ length: CONCURRENCY }, checkNext))
  }

  /** @param isSecondTime - the entry was too young in the last sweep */
  private async check(entry: string, isSecondTime: boolean): Promise<void> {
    const { ledger, queue, index, onFinal } = this.settings
    try {
      const found = await ledger.load(taskOf(entry))
      // Deleted, used again, or enqueued again: the last two have entries of their own.
      if (!found || jobId(found.record) !== entry) return index.remove(entry)
      const { record } = found
      // The write of its list entry may have failed, or its start has come.
      index.putSoon(toListed(record))
      // Its process died, or the store failed, before the cleanup was done.
      if (isFinal(record.state)) return await onFinal(record)
      if (record.holder !== undefined && record.holder !== ledger.holder) return await this.checkHolder(record, record.holder)
      if (isEnqueuedLater(record)) {
        const isYoung = !isSecondTime && Date.now() - record.createdAt < COMMITTED_MS
        if (isYoung) return void this.young.push(entry)
        return await this.enqueueFirst(found, entry)
      }
      if (!await poolOf(queue, record.pool).has(entry)) await this.repair(found)
    } catch (error) {
      // The next check tries again.
      if (isStoreUnavailable(error) || wasNotAccepted(error)) return
      reportError(this.settings, error, { taskId: taskOf(entry), name: 'longhaul.sweep' }, 0)
    }
  }

  /** Checks a task in the in-process queue of another process. */
  private async checkHolder(record: TaskRecord, holder: string): Promise<void> {
    const { leases, executor, ledger } = this.settings
    if (leases) return leases.noteRead(record)
    // The application has another queue now. A process of the previous version may still run.
    if (!await isAlive(ledger.store, holder)) await executor.interrupt(record.id, holder)
  }

  /** Enqueues a task whose transaction has committed, if the process that accepted it has not. */
  private async enqueueFirst(found: VersionedRecord, entry: string): Promise<void> {
    const { queue, index, definitions, sweepMs } = this.settings
    // A queue in memory runs the task in this process.
    if (!queue.durable && !definitions.has(found.record.name)) return
    try {
      const pool = poolOf(queue, found.record.pool)
      if (!await pool.has(entry)) await enqueueCommitted(this.settings, found)
      // With many delayed tasks, checks before their start would delay those that are urgent.
      const untilStartMs = (found.record.startAt ?? 0) - Date.now()
      if (untilStartMs > sweepMs) await index.add(entry, untilStartMs + sweepMs)
    } catch (error) {
      // The queue is full or unavailable.
      await index.add(entry, COMMITTED_MS)
      throw error
    }
  }

  /** Repairs a record without a job. */
  private async repair(found: VersionedRecord): Promise<void> {
    const { ledger, queue, executor, definitions } = this.settings
    const { record } = found
    if (!queue.durable) return executor.fail(found, 'task_interrupted')
    if (record.state === 'queued') {
      const work = await loadWork(ledger.store, record)
      return work === undefined ? this.failLost(found) : this.enqueueAgain(found, work)
    }
    // Its worker may be alive, and write the end of its run without a job. It has the time limit of
    // a run for that.
    const { timeoutMs = UNKNOWN_TIMEOUT_MS } = definitions.get(record.name) ?? {}
    if (await elapsed(ledger.store, `lost:${jobId(record)}:${record.attempt}`, timeoutMs) >= timeoutMs) await this.failLost(found)
  }

  private async failLost(found: VersionedRecord): Promise<void> {
    this.report(found.record, 'its input was lost too, so the task has failed')
    await this.settings.executor.fail(found, 'task_lost')
  }

  /**
   * Enqueues a task under a new job name, so that the lost job does nothing if it appears again.
   */
  private async enqueueAgain(
    found: VersionedRecord, { input, context, attempts, backoff }: Work,
  ): Promise<void> {
    const { ledger, index, queue, identity, sweepMs } = this.settings
    const { record: { id: taskId, name, job: lost } } = found
    const job = newJobName()
    const entry = jobId({ id: taskId, job })
    // Added first, so that the job of the record has an entry whenever this process dies.
    await index.add(entry, sweepMs)
    const moved = await ledger.move(found, (record) => (record.job === lost && record.state === 'queued' ? { job } : undefined))
    index.remove(jobId(moved?.moved ? found.record : { id: taskId, job }))
    if (!moved?.moved) return
    this.report(moved.record, 'it was enqueued again')
    const newJob = new TaskJob({ taskId, job, name, input, context, store: await identity.read() }, moved)
    // If this fails, the next check finds no job.
    const { pool, priority = 0 } = moved.record
    const delayMs = await remainingDelayMs(queue, moved.record)
    await poolOf(queue, pool).enqueue(newJob, { delayMs, attempts, backoff, priority })
  }

  private report({ id, name, attempt }: TaskRecord, what: string): void {
    reportError(this.settings, new Error(`The queue has lost the job of this task; ${what}`), { taskId: id, name }, attempt)
  }
}
