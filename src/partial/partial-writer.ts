import { Buffer } from 'node:buffer'
import { httpError } from '../http/errors.js'
import { PacedWrites } from '../runtime/paced-writes.js'
import { StoreRetry } from '../stores/calls.js'
import type { Store, WriteOptions } from '../stores/store.js'
import type { StoredRecord } from '../stores/stored-record.js'
import { rejectEmptied } from '../tasks/definition/json-values.js'
import {
  deleteLogParts, emptyLog, logRecord, newId, logPartKey, type Log, type LogPart, type TaskOfLog,
} from './partial-log.js'

/** Size from which the newest partial results become a part of their own, in bytes. */
const PART_BYTES = 16_384
/** Maximum size of one partial result, in bytes. */
const MAX_RESULT_BYTES = 65_536
/** Bytes that may wait to be written. Beyond them `emit` waits. */
const MAX_WAITING_BYTES = 65_536
/** Maximum number of runs that a log knows. A reader that has results of older runs gets a gap. */
const MAX_WRITINGS = 100

/** Limits of the partial results of one task. */
export interface PartialLimits {
  readonly keepMs: number
  readonly maxResults: number
  readonly maxBytes: number
  /** Pause between two writes, in milliseconds. */
  readonly gatherMs: number
}

/** Returns a partial result as JSON. Throws a `TypeError` if it is not JSON, or too large. */
export function resultText(result: unknown): string {
  const text = JSON.stringify(result) as string | undefined
  if (text === undefined) throw new TypeError('emit: a partial result must be JSON, not undefined or a function')
  rejectEmptied(result, text)
  if (Buffer.byteLength(text) <= MAX_RESULT_BYTES) return text
  throw new TypeError(`emit: a partial result may have ${MAX_RESULT_BYTES} bytes as JSON; write a file for more`)
}

/** The run that emits. */
export interface EmittingRun {
  readonly task: TaskOfLog
  readonly attempt: number
  /** Caller that the partial results count for; `undefined` for none. */
  readonly caller: string | undefined
  readonly signal: AbortSignal
}

/** The partial results of one run of a task. The run that began last alone may write. */
export class PartialWriter {
  private readonly id = newId()
  private readonly retry: StoreRetry
  private readonly options: WriteOptions
  /** Number of results from which the newest ones become a part. */
  private readonly partCount: number
  private readonly record: StoredRecord<Log>
  private waiting: string[] = []
  private waitingBytes = 0
  /**
   * Number of calls that a `clear` ends: the `clear` itself and the calls that waited before it.
   */
  private dropping = 0
  /** Number of calls of `emit` and `clear`. `done` counts those that are complete. */
  private calls = 0
  private done = 0
  private readonly writes: PacedWrites
  private failure: { readonly error: unknown } | undefined

  private constructor(
    private readonly store: Store, private readonly run: EmittingRun, private readonly limits: PartialLimits,
  ) {
    const { caller, signal } = run
    this.writes = new PacedWrites(() => this.writeSome(), () => untilTick(limits.gatherMs))
    this.retry = new StoreRetry(store.shared, signal)
    this.options = { ttlMs: limits.keepMs, evictable: true, caller }
    this.record = logRecord(store, run.task, this.options)
    this.partCount = Math.ceil(limits.maxResults / 10)
  }

  /**
   * Takes over the partial results from an earlier run, which can then write no more.
   *
   * @throws {HttpError} 409 `attempt_replaced`: a later run writes these results now
   */
  static async open(store: Store, run: EmittingRun, limits: PartialLimits): Promise<PartialWriter> {
    const writer = new PartialWriter(store, run, limits)
    await writer.change((stored) => {
      // A run that was given back must not take over from the next one, which has the same attempt.
      run.signal.throwIfAborted()
      if (stored && stored.attempt > run.attempt) throw httpError('attempt_replaced')
      return writer.continued(stored ?? emptyLog())
    })
    return writer
  }

  /** Writes a result soon. Resolves at once, unless many wait. */
  async emit(text: string): Promise<void> {
    if (this.failure) throw this.failure.error
    this.calls++
    this.waiting.push(text)
    this.waitingBytes += text.length
    this.requestWrite()
    if (this.waitingBytes > MAX_WAITING_BYTES) await this.settled()
  }

  /** Drops all results. Readers get a gap. */
  async clear(): Promise<void> {
    if (this.failure) throw this.failure.error
    this.calls++
    this.dropping += this.waiting.length + 1
    this.waiting = []
    this.waitingBytes = 0
    this.requestWrite()
    await this.settled()
  }

  /** Returns how many results there were since `clear`, and the newest of them that are stored, without a gap. */
  async stored(): Promise<{ readonly count: number, readonly texts: readonly string[] }> {
    await this.settled()
    const { log: { parts, first, tail }, run: { task }, store } = this
    let texts: string[] = []
    for (const part of parts) {
      const older = await this.retry.run(() => store.get(logPartKey(task, part)))
      // Evicted: those before it are no use without it.
      texts = older ? texts.concat(older.value.split('\n')) : []
    }
    return { count: first + tail.length - 1, texts: texts.concat(tail) }
  }

  /** Resolves when all results so far are stored. Rejects if one was not. */
  async settled(): Promise<void> {
    const { calls } = this
    await this.writes.flush(() => this.done >= calls)
    if (this.failure) throw this.failure.error
  }

  /** Makes all later calls reject, and `settled`. */
  fail(error: unknown): void {
    this.failure ??= { error }
  }

  /** Writes at once if there is enough for a part. */
  private requestWrite(): void {
    this.writes.request(this.waitingBytes >= PART_BYTES || this.waiting.length >= this.partCount)
  }

  /** Makes one write. Never rejects: the next call throws the error. */
  private async writeSome(): Promise<void> {
    try {
      const { dropping } = this
      if (dropping > 0) {
        this.dropping = 0
        await this.drop()
        this.done += dropping
      } else {
        const texts = this.take()
        await this.append(texts)
        this.done += texts.length
      }
    } catch (error) {
      this.fail(error)
      this.waiting = []
      this.dropping = 0
    }
    if (this.dropping > 0 || this.waiting.length > 0) this.requestWrite()
  }

  /** Takes as many of the waiting results as a part may have. */
  private take(): string[] {
    let [count, bytes] = [0, 0]
    for (const text of this.waiting) {
      if (count === this.partCount || bytes >= PART_BYTES) break
      count++
      bytes += Buffer.byteLength(text)
      this.waitingBytes -= text.length
    }
    return this.waiting.splice(0, count)
  }

  private async append(texts: readonly string[]): Promise<void> {
    const { store, run: { task }, log, options, partCount, limits: { maxResults, maxBytes } } = this
    const tail = [...log.tail, ...texts]
    const bytes = tail.reduce((sum, text) => sum + Buffer.byteLength(text), 0)
    if (bytes < PART_BYTES && tail.length < partCount) return this.write({ ...log, tail })
    const part = { id: newId(), first: log.first, count: tail.length, bytes }
    // An entry that exists is that of a try whose reply was lost.
    await this.retry.run(() => store.create(logPartKey(task, part), tail.join('\n'), options))
    const parts = [...log.parts, part]
    const dropped: LogPart[] = []
    while (parts.length > 1 && (total(parts, 'count') > maxResults || total(parts, 'bytes') > maxBytes)) {
      dropped.push(parts.shift() as LogPart)
    }
    await this.write({ ...log, parts, first: log.first + tail.length, tail: [] })
    await deleteLogParts(store, task, dropped)
  }

  /** Stored log. */
  private get log(): Log {
    return this.record.value as Log
  }

  /** Returns a log that this run continues. */
  private continued(log: Omit<Log, 'attempt' | 'writer'>): Log {
    const { run: { attempt }, id: writer } = this
    const first = log.first + log.tail.length
    const writings = [...log.writings.filter((earlier) => earlier.first < first), { id: writer, first }]
    return { ...log, attempt, writer, writings: writings.slice(-MAX_WRITINGS) }
  }

  private async drop(): Promise<void> {
    const { store, run: { task }, log } = this
    if (log.first === 1 && log.tail.length === 0) return
    await this.write({ ...log, ...emptyLog() })
    await deleteLogParts(store, task, log.parts)
  }

  private write(log: Log): Promise<void> {
    return this.change((stored) => {
      // Of this run: a store that failed over may have lost the last write. Of an earlier one: it wrote
      // after the entry was evicted.
      const isReplaced = stored
        ? stored.writer !== this.id && stored.attempt >= log.attempt
        // Evicted or expired; or removed with the task, and then the run was stopped.
        : this.run.signal.aborted
      if (isReplaced) throw httpError('attempt_replaced')
      return log
    })
  }

  /** Changes the log. Repeats the change while the store is away. */
  private change(update: (stored: Log | undefined) => Log): Promise<void> {
    return this.retry.run(() => this.record.change(update))
  }
}

/**
 * Returns the time to the next tick that all runs of the process share, in milliseconds. Writes of one
 * turn of the event loop can share a statement of the store.
 */
function untilTick(gatherMs: number): number {
  return gatherMs === 0 ? 0 : gatherMs - performance.now() % gatherMs
}

function total(parts: readonly LogPart[], what: 'count' | 'bytes'): number {
  return parts.reduce((sum, part) => sum + part[what], 0)
}
