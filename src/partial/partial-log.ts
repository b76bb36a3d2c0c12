import { Buffer } from 'node:buffer'
import { randomBytes } from 'node:crypto'
import { httpError } from '../http/errors.js'
import { setTimeout } from '../runtime/timers.js'
import { retryUntil, type Retry } from '../stores/calls.js'
import type { Entry, Store, WriteOptions } from '../stores/store.js'

/** Size from which the newest partial results become a part of their own, in bytes. */
const PART_BYTES = 16_384
/** Maximum size of one partial result, in bytes. */
const MAX_RESULT_BYTES = 65_536
/** Bytes that may wait to be written. Beyond them `emit` waits. */
const MAX_WAITING_BYTES = 65_536
/**
 * Numbers of a run whose task has no entry, because it was evicted. No reader has numbers of a later run, so it is told
 * of a gap.
 */
const RUN_NUMBERS = 1e9
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
  /** Id of the writer that wrote it. */
  readonly writer: string
  /** Number of the first one. */
  readonly first: number
  readonly count: number
  readonly bytes: number
}

/** The entry of a task: its newest results themselves, and where the older ones are. */
interface Log {
  /** Number of the attempt that may write. */
  readonly attempt: number
  /** Id of the writer that may write. A run that was given back has the attempt of the next one. */
  readonly writer: string
  /** Number of the first result since the beginning, or since `clear`. */
  readonly start: number
  readonly parts: readonly Part[]
  /** Number of the first result of `tail`. */
  readonly first: number
  /** The newest results, as JSON. */
  readonly tail: readonly string[]
}

/** Returns the key of the entry that changes with each write. `name` is that of the external resource of the task. */
export const logKey = (name: string): string => `partial/${name}`
const partKey = (name: string, { writer, first }: Part): string => `partial/${name}/${writer}.${first}`

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
  /** Name of the external resource of the task. */
  readonly name: string
  readonly attempt: number
  readonly owner: string | undefined
  readonly signal: AbortSignal
}

/** The partial results of one run of a task. The run that began last alone may write. */
export class PartialWriter {
  private readonly id = randomBytes(9).toString('base64url')
  private readonly retry: Retry
  private readonly options: WriteOptions
  /** Number of results from which the newest ones become a part. */
  private readonly partCount: number
  private log: Log
  private revision: string | undefined
  private readonly waiting: string[] = []
  private waitingBytes = 0
  private isClearing = false
  private writing: Promise<void> | undefined
  private failure: { readonly error: unknown } | undefined

  private constructor(
    private readonly store: Store, private readonly run: EmittingRun, private readonly limits: Limits,
  ) {
    this.retry = retryUntil(run.signal)
    this.options = { ttlMs: limits.keepMs, evictable: true, owner: run.owner }
    this.partCount = Math.ceil(limits.maxResults / 10)
    const first = (run.attempt - 1) * RUN_NUMBERS + 1
    this.log = { attempt: run.attempt, writer: this.id, start: first, parts: [], first, tail: [] }
  }

  /**
   * Takes the partial results over from an earlier run, which can write none any more.
   *
   * @throws {HttpError} 409 `attempt_replaced`: a later run has done so
   */
  static async open(store: Store, run: EmittingRun, limits: Limits): Promise<PartialWriter> {
    const writer = new PartialWriter(store, run, limits)
    const { id, retry, log: empty } = writer
    let entry = await retry(async () => store.get(logKey(run.name)))
    for (;;) {
      // A run that was given back must not take over from the next one, which has the same attempt.
      run.signal.throwIfAborted()
      const stored = entry && decode(entry)
      if (stored && stored.attempt > run.attempt) throw httpError('attempt_replaced')
      writer.revision = entry?.revision
      entry = await writer.tryWrite({ ...stored ?? empty, attempt: run.attempt, writer: id })
      if (!entry) return writer
    }
  }

  /** Writes a result soon. Resolves at once, unless many wait. */
  async emit(text: string): Promise<void> {
    if (this.failure) throw this.failure.error
    this.waiting.push(text)
    this.waitingBytes += text.length
    this.writing ??= this.writeAll()
    if (this.waitingBytes > MAX_WAITING_BYTES) await this.settled()
  }

  /** Resolves when all results are stored. */
  async settled(): Promise<void> {
    await this.writing
    if (this.failure) throw this.failure.error
  }

  /** Returns how many results there were since `clear`, and the newest of them that are stored, without a gap. */
  async stored(): Promise<{ readonly count: number, readonly texts: readonly string[] }> {
    await this.settled()
    const { start, parts, first, tail } = this.log
    let texts: string[] = []
    for (const part of parts) {
      const older = await this.retry(async () => this.store.get(partKey(this.run.name, part)))
      // Evicted: those before it are no use without it.
      texts = older ? texts.concat(older.value.split('\n')) : []
    }
    return { count: first + tail.length - start, texts: texts.concat(tail) }
  }

  /** Drops all results. Readers are told. The numbers go on. */
  async clear(): Promise<void> {
    if (this.failure) throw this.failure.error
    this.waiting.length = 0
    this.waitingBytes = 0
    this.isClearing = true
    this.writing ??= this.writeAll()
    await this.settled()
  }

  /** Makes all writes, one after the other. Never rejects: the next call throws the error. */
  private async writeAll(): Promise<void> {
    try {
      await new Promise((resolve) => setTimeout(resolve, GATHER_MS))
      while (this.isClearing || this.waiting.length > 0) {
        if (this.isClearing) {
          this.isClearing = false
          await this.drop()
          continue
        }
        const texts = this.waiting.splice(0, this.partCount)
        this.waitingBytes -= lengthOf(texts)
        await this.append(texts)
      }
    } catch (error) {
      this.failure = { error }
    }
    this.writing = undefined
  }

  private async append(texts: readonly string[]): Promise<void> {
    const { store, run: { name }, log, id: writer, options, partCount, limits: { maxResults, maxBytes } } = this
    const tail = [...log.tail, ...texts]
    const bytes = bytesOf(tail)
    if (bytes < PART_BYTES && tail.length < partCount) return this.write({ ...log, tail })
    const part = { writer, first: log.first, count: tail.length, bytes }
    // The key belongs to this writer, so an entry that exists is that of a try whose reply was lost.
    await this.retry(async () => store.create(partKey(name, part), tail.join('\n'), options))
    const parts = [...log.parts, part]
    const dropped: Part[] = []
    while (parts.length > 1 && (total(parts, 'count') > maxResults || total(parts, 'bytes') > maxBytes)) {
      dropped.push(parts.shift() as Part)
    }
    await this.replace({ ...log, parts, first: log.first + tail.length, tail: [] }, dropped)
  }

  private async drop(): Promise<void> {
    const { log, log: { start, parts, first, tail } } = this
    const last = first + tail.length - 1
    if (last < start) return
    // A number is left out, so that readers that have all the others see a gap.
    await this.replace({ ...log, start: last + 2, parts: [], first: last + 2, tail: [] }, parts)
  }

  private async replace(log: Log, dropped: readonly Part[]): Promise<void> {
    await this.write(log)
    await deleteParts(this.store, this.run.name, dropped)
  }

  private async write(log: Log): Promise<void> {
    if (await this.tryWrite(log)) throw httpError('attempt_replaced')
  }

  /** Writes the log, unless another writer has: then returns its entry. Repeats the write if its reply is lost. */
  private async tryWrite(log: Log): Promise<Entry | undefined> {
    const { store, options, retry, run: { name, signal } } = this
    const [key, value] = [logKey(name), encode(log)]
    for (;;) {
      const { revision } = this
      const outcome = await retry(async () => (
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

function lengthOf(texts: readonly string[]): number {
  return texts.reduce((sum, text) => sum + text.length, 0)
}

function bytesOf(texts: readonly string[]): number {
  return texts.reduce((sum, text) => sum + Buffer.byteLength(text), 0)
}

function total(parts: readonly Part[], what: 'count' | 'bytes'): number {
  return parts.reduce((sum, part) => sum + part[what], 0)
}

/** A partial result, with its number from 1. */
interface NumberedResult {
  readonly id: number
  /** The value as JSON. */
  readonly text: string
}

/** Some partial results after a number. */
export interface Page {
  readonly results: readonly NumberedResult[]
  /** Number of the last result of the page, or of the last one that was ever stored. */
  readonly last: number
  /** True if there are more after `last`. */
  readonly isMore: boolean
  /** Number of the first result that is still stored, if those before it are missing. */
  readonly from: number | undefined
}

/**
 * Reads the partial results after `after`, those of one part or the newest ones, so that a slow reader holds no more. Some
 * may be missing, because they were dropped.
 *
 * @param name - that of the external resource of the task, if it has one
 */
export async function readAfter(store: Store, name: string | undefined, after: number): Promise<Page> {
  const entry = name === undefined ? undefined : await store.get(logKey(name))
  if (name === undefined || !entry) return { results: [], last: after, isMore: false, from: undefined }
  const { parts, first, tail } = decode(entry)
  for (const part of parts) {
    if (part.first + part.count - 1 <= after) continue
    const older = await store.get(partKey(name, part))
    // Evicted: a gap.
    if (older) return pageOf(older.value.split('\n'), part.first, after, true)
  }
  return pageOf(tail, first, after, false)
}

/** Yields the pages after `after`, up to the newest results. */
export async function* pagesAfter(
  store: Store, name: string | undefined, after: number,
): AsyncGenerator<Page, void, undefined> {
  for (let [last, isMore] = [after, true]; isMore;) {
    const page = await readAfter(store, name, last)
    yield page
    ;({ last, isMore } = page)
  }
}

function pageOf(texts: readonly string[], first: number, after: number, isMore: boolean): Page {
  const results = texts.map((text, at) => ({ id: first + at, text })).filter(({ id }) => id > after)
  const next = results[0]?.id ?? first + texts.length
  return {
    results, isMore, last: Math.max(after, first + texts.length - 1), from: next > after + 1 ? next : undefined,
  }
}

/** Deletes all partial results of a task. */
export async function removeAll(store: Store, name: string): Promise<void> {
  const entry = await store.get(logKey(name))
  if (!entry) return
  await store.delete(logKey(name))
  await deleteParts(store, name, decode(entry).parts)
}

/** Never rejects, because they expire. */
async function deleteParts(store: Store, name: string, parts: readonly Part[]): Promise<void> {
  await Promise.all(parts.map(async (part) => store.delete(partKey(name, part)))).catch(() => undefined)
}
