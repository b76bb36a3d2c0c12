import { Buffer } from 'node:buffer'
import { randomBytes } from 'node:crypto'
import { isWorkerClosing } from '../engine/runs.js'
import { httpError } from '../http/errors.js'
import { setTimeout } from '../runtime/timers.js'
import { StoreRetry } from '../stores/calls.js'
import type { Entry, Store, WriteOptions } from '../stores/store.js'

/** Size from which the newest partial results become a part of their own, in bytes. */
const PART_BYTES = 16_384
/** Maximum size of one partial result, in bytes. */
const MAX_RESULT_BYTES = 65_536
/** Bytes that may wait to be written. Beyond them `emit` waits. */
const MAX_WAITING_BYTES = 65_536
/** Time for which partial results are gathered before they are written, in milliseconds. */
const GATHER_MS = 20

/** Limits of the partial results of one task. */
export interface Limits {
  readonly keepMs: number
  readonly maxResults: number
  readonly maxBytes: number
}

/** Older partial results, in an entry of their own that is written once. */
interface Part {
  /** Random, so that no other run takes it for one of its own. */
  readonly id: string
  /** Number of the first one. */
  readonly first: number
  readonly count: number
  readonly bytes: number
}

/** The entry of a task: its newest results themselves, and where the older ones are. */
interface Log {
  /** Random, and another one after `clear` or if the entry was evicted: then the numbers begin again. */
  readonly id: string
  /** Number of the attempt that may write. */
  readonly attempt: number
  /** Id of the run that may write. A run that was given back has the attempt of the next one. */
  readonly writer: string
  readonly parts: readonly Part[]
  /** Number of the first result of `tail`, from 1. */
  readonly first: number
  /** The newest results, as JSON. */
  readonly tail: readonly string[]
}

/** A task that has partial results. */
export interface TaskOfLog {
  readonly id: string
  /** Name of its external resource. It tells the task from an earlier one that had the same id. */
  readonly external: string | undefined
}

/** Returns the key of the entry that changes with each write. */
export const logKey = ({ id, external }: TaskOfLog): string => `partial/${id}/${external}`
const partKey = (task: TaskOfLog, { id }: Part): string => `${logKey(task)}/${id}`
const newId = (): string => randomBytes(4).toString('hex')
const emptyLog = () => ({ id: newId(), parts: [], first: 1, tail: [] })

/** A line of JSON for the log, and one for each result. JSON contains no line break. */
function encode({ tail, ...head }: Log): string {
  return [JSON.stringify(head), ...tail].join('\n')
}

function decode({ value }: Entry): Log {
  const [head = '', ...tail] = value.split('\n')
  return { ...JSON.parse(head) as Omit<Log, 'tail'>, tail }
}

/** Returns a partial result as JSON. Throws a `TypeError` if it is not JSON, or too large. */
export function resultText(result: unknown): string {
  const text = JSON.stringify(result) as string | undefined
  if (text === undefined) throw new TypeError('emit: a partial result must be JSON, not undefined or a function')
  if (Buffer.byteLength(text) <= MAX_RESULT_BYTES) return text
  throw new TypeError(`emit: a partial result may have ${MAX_RESULT_BYTES} bytes as JSON; write a file for more`)
}

/** The run that emits. */
export interface EmittingRun {
  readonly task: TaskOfLog
  readonly attempt: number
  readonly owner: string | undefined
  readonly signal: AbortSignal
}

/** The partial results of one run of a task. The run that began last alone may write. */
export class PartialWriter {
  private readonly id = newId()
  private readonly retry: StoreRetry
  private readonly options: WriteOptions
  /** Number of results from which the newest ones become a part. */
  private readonly partCount: number
  private log: Log
  private revision: string | undefined
  private waiting: string[] = []
  private waitingBytes = 0
  private isClearing = false
  private writing: Promise<void> | undefined
  private failure: { readonly error: unknown } | undefined

  private constructor(
    private readonly store: Store, private readonly run: EmittingRun, private readonly limits: Limits,
  ) {
    const { attempt, owner, signal } = run
    this.retry = new StoreRetry(store.shared, signal)
    this.options = { ttlMs: limits.keepMs, evictable: true, owner }
    this.partCount = Math.ceil(limits.maxResults / 10)
    this.log = { ...emptyLog(), attempt, writer: this.id }
  }

  /**
   * Takes the partial results over from an earlier run, which can write none any more.
   *
   * @throws {HttpError} 409 `attempt_replaced`: a later run has done so
   */
  static async open(store: Store, run: EmittingRun, limits: Limits): Promise<PartialWriter> {
    const writer = new PartialWriter(store, run, limits)
    let entry = await writer.retry.run(() => store.get(logKey(run.task)))
    for (;;) {
      // A run that was given back must not take over from the next one, which has the same attempt.
      run.signal.throwIfAborted()
      const stored = entry && decode(entry)
      if (stored && stored.attempt > run.attempt) throw httpError('attempt_replaced')
      writer.revision = entry?.revision
      entry = await writer.tryWrite({ ...writer.log, ...stored, attempt: run.attempt, writer: writer.id })
      if (!entry) return writer
    }
  }

  /** Writes a result soon. Resolves at once, unless many wait. */
  async emit(text: string): Promise<void> {
    this.assertWritable()
    this.waiting.push(text)
    this.waitingBytes += text.length
    this.writing ??= this.writeAll()
    if (this.waitingBytes > MAX_WAITING_BYTES) await this.settled()
  }

  /** Drops all results. Readers are told. */
  async clear(): Promise<void> {
    this.assertWritable()
    this.waiting = []
    this.waitingBytes = 0
    this.isClearing = true
    this.writing ??= this.writeAll()
    await this.settled()
  }

  /** Returns how many results there were since `clear`, and the newest of them that are stored, without a gap. */
  async stored(): Promise<{ readonly count: number, readonly texts: readonly string[] }> {
    await this.settled()
    const { log: { parts, first, tail }, run: { task }, store } = this
    let texts: string[] = []
    for (const part of parts) {
      const older = await this.retry.run(() => store.get(partKey(task, part)))
      // Evicted: those before it are no use without it.
      texts = older ? texts.concat(older.value.split('\n')) : []
    }
    return { count: first + tail.length - 1, texts: texts.concat(tail) }
  }

  /** Resolves when all results are stored. Rejects if one was not. */
  async settled(): Promise<void> {
    await this.writing
    if (this.failure) throw this.failure.error
  }

  /** Makes all later calls reject, and `settled`. */
  fail(error: unknown): void {
    this.failure ??= { error }
  }

  /** A run that was stopped emits nothing more. One that a shutdown stops may still end. */
  private assertWritable(): void {
    const { failure, run: { signal } } = this
    if (failure) throw failure.error
    if (signal.aborted && !isWorkerClosing(signal.reason)) throw signal.reason
  }

  /** Makes all writes, one after the other. Never rejects: the next call throws the error. */
  private async writeAll(): Promise<void> {
    try {
      await new Promise((resolve) => setTimeout(resolve, GATHER_MS))
      while (this.isClearing || this.waiting.length > 0) {
        if (this.isClearing) {
          this.isClearing = false
          await this.drop()
        } else await this.append(this.take())
      }
    } catch (error) {
      this.fail(error)
    }
    this.writing = undefined
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
    await this.retry.run(() => store.create(partKey(task, part), tail.join('\n'), options))
    const parts = [...log.parts, part]
    const dropped: Part[] = []
    while (parts.length > 1 && (total(parts, 'count') > maxResults || total(parts, 'bytes') > maxBytes)) {
      dropped.push(parts.shift() as Part)
    }
    await this.write({ ...log, parts, first: log.first + tail.length, tail: [] })
    await deleteParts(store, task, dropped)
  }

  private async drop(): Promise<void> {
    const { store, run: { task }, log } = this
    if (log.first === 1 && log.tail.length === 0) return
    await this.write({ ...log, ...emptyLog() })
    await deleteParts(store, task, log.parts)
  }

  private async write(log: Log): Promise<void> {
    for (;;) {
      const entry = await this.tryWrite(log)
      if (!entry) return
      const { writer, attempt } = decode(entry)
      // Of this run: a store that failed over may have lost the last write. Of an earlier one: it wrote after the entry
      // was evicted.
      if (writer !== this.id && attempt >= log.attempt) throw httpError('attempt_replaced')
      this.revision = entry.revision
    }
  }

  /** Writes the log. Returns the entry that is there instead, if there is one. Repeats the write if its reply is lost. */
  private async tryWrite(log: Log): Promise<Entry | undefined> {
    const { store, options, run: { task, signal } } = this
    const [key, value] = [logKey(task), encode(log)]
    for (;;) {
      const { revision } = this
      const outcome = await this.retry.run(async () => (
        revision === undefined ? store.create(key, value, options) : store.replace(key, value, revision, options)
      ))
      let written: string | undefined
      if ('revision' in outcome) written = outcome.revision
      else if (outcome.entry?.value === value) written = outcome.entry.revision
      if (written !== undefined) {
        this.revision = written
        this.log = log
        return undefined
      }
      if ('entry' in outcome && outcome.entry) return outcome.entry
      // Evicted or expired; or removed with the task, and then the run was stopped.
      if (signal.aborted) throw httpError('attempt_replaced')
      this.revision = undefined
    }
  }
}

function total(parts: readonly Part[], what: 'count' | 'bytes'): number {
  return parts.reduce((sum, part) => sum + part[what], 0)
}

/** The last partial result that a reader has: the id of its log, and its number. */
export interface Position {
  readonly log: string
  readonly last: number
}

/** Log of a reader of a task that has not emitted yet. */
const NOT_YET = 'none'
/** Log of a reader that was told that all is gone. */
const GONE = 'gone'

/** Returns the position that a client has sent, if it is one. */
export function parsePosition(text: string): Position | undefined {
  const [, log, last] = /^([a-z0-9]{1,16})-(\d{1,15})$/.exec(text) ?? []
  return log === undefined ? undefined : { log, last: Number(last) }
}

/** Returns a position as clients see it, the id of a partial result. */
export function toId({ log, last }: Position): string {
  return `${log}-${last}`
}

/** A partial result as JSON, and the position of a reader that has it. */
interface PositionedResult extends Position {
  readonly text: string
}

/** Some partial results after a position. */
export interface Page {
  readonly results: readonly PositionedResult[]
  /** Position of a reader that has the page. */
  readonly position: Position
  /** True if there are more. */
  readonly isMore: boolean
  /** True if some before the results of this page are missing. */
  readonly isGap: boolean
}

/**
 * Reads the partial results after a position, those of one part or the newest ones, so that a slow reader holds no more.
 * Some may be missing, because they were dropped.
 *
 * @param hasRun - true for a final task that has run, so that nothing means that all is gone
 */
export async function readAfter(
  store: Store, task: TaskOfLog, position: Position | undefined, hasRun: boolean,
): Promise<Page> {
  const entry = task.external === undefined ? undefined : await store.get(logKey(task))
  if (!entry) {
    const isGone = hasRun && task.external !== undefined
    const now = isGone ? { log: GONE, last: 0 } : position ?? { log: NOT_YET, last: 0 }
    return { results: [], position: now, isMore: false, isGap: isGone && position?.log !== GONE }
  }
  const { id, parts, first, tail } = decode(entry)
  const isOther = position !== undefined && position.log !== NOT_YET && position.log !== id
  const last = position?.log === id ? position.last : 0
  const pageOf = (texts: readonly string[], from: number, isMore: boolean): Page => {
    const results = texts.map((text, at) => ({ log: id, last: from + at, text })).filter((result) => result.last > last)
    const next = results[0]?.last ?? from + texts.length
    return {
      results, isMore, isGap: isOther || next > last + 1, position: { log: id, last: Math.max(last, from + texts.length - 1) },
    }
  }
  for (const part of parts) {
    if (part.first + part.count - 1 <= last) continue
    const older = await store.get(partKey(task, part))
    // Evicted: a gap.
    if (older) return pageOf(older.value.split('\n'), part.first, true)
  }
  return pageOf(tail, first, false)
}

/** Deletes all partial results of a task. */
export async function removeAll(store: Store, task: TaskOfLog): Promise<void> {
  const entry = await store.get(logKey(task))
  if (!entry) return
  await store.delete(logKey(task))
  await deleteParts(store, task, decode(entry).parts)
}

/** Never rejects, because they expire. */
async function deleteParts(store: Store, task: TaskOfLog, parts: readonly Part[]): Promise<void> {
  await Promise.all(parts.map(async (part) => store.delete(partKey(task, part)))).catch(() => undefined)
}
