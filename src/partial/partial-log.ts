import { Buffer } from 'node:buffer'
import { httpError } from '../http/errors.js'
import { setTimeout } from '../runtime/timers.js'
import type { Retry } from '../stores/calls.js'
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
  /** Number of the first one. */
  readonly first: number
  /** Number of the run that wrote it. */
  readonly run: number
  readonly count: number
  readonly bytes: number
}

/** The entry of a task: its newest results themselves, and where the older ones are. */
interface Log {
  /** Number of the run that may write. */
  readonly run: number
  /** Owner of the task. An id may be used again after its task, by somebody else. */
  readonly owner?: string | undefined
  readonly parts: readonly Part[]
  /** Number of the first result of `tail`. */
  readonly first: number
  /** The newest results, as JSON. */
  readonly tail: readonly string[]
}

/** Returns the key of the entry that changes with each write. */
export const logKey = (taskId: string): string => `partial/${taskId}`
const partKey = (taskId: string, { run, first }: Part): string => `partial/${taskId}/${run}.${first}`

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

/** The partial results of one run of a task. The latest run alone may write. */
export class PartialWriter {
  private revision: string | undefined
  private readonly options: WriteOptions
  /** Number of results from which the newest ones become a part. */
  private readonly partCount: number
  private readonly waiting: string[] = []
  private waitingBytes = 0
  private writing: Promise<void> | undefined
  private failure: { readonly error: unknown } | undefined

  private constructor(
    private readonly store: Store, private readonly taskId: string, private log: Log,
    private readonly limits: Limits, private readonly retry: Retry, owner: string | undefined,
  ) {
    this.options = { ttlMs: limits.keepMs, evictable: true, owner }
    this.partCount = Math.ceil(limits.maxResults / 10)
  }

  /**
   * Takes the partial results over from an earlier run, which can write none any more.
   *
   * @throws {HttpError} 409 `attempt_replaced`: a later run has done so
   */
  static async open(
    store: Store, run: { readonly taskId: string, readonly attempt: number, readonly owner: string | undefined },
    limits: Limits, retry: Retry,
  ): Promise<PartialWriter> {
    const entry = await retry(async () => store.get(logKey(run.taskId)))
    const { attempt, owner } = run
    const stored = entry && decode(entry)
    const isOwn = stored !== undefined && stored.owner === owner
    if (isOwn && stored.run > attempt) throw httpError('attempt_replaced')
    const log = isOwn ? stored : { parts: [], first: (attempt - 1) * RUN_NUMBERS + 1, tail: [] }
    const writer = new PartialWriter(store, run.taskId, { ...log, run: attempt, owner }, limits, retry, owner)
    writer.revision = entry?.revision
    await writer.write(writer.log)
    return writer
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

  /** The results that are stored, oldest first. */
  async stored(): Promise<string[]> {
    await this.settled()
    const texts: string[] = []
    for await (const { results } of pagesAfter(this.store, { id: this.taskId, owner: this.options.owner }, 0)) {
      texts.push(...results.map(({ text }) => text))
    }
    return texts
  }

  /** Drops all results. Readers are told. The numbers go on. */
  async clear(): Promise<void> {
    await this.settled()
    const { parts, first, tail } = this.log
    await this.replace({ ...this.log, parts: [], first: first + tail.length, tail: [] }, parts)
  }

  /** Never rejects: the next call throws the error. */
  private async writeAll(): Promise<void> {
    try {
      await new Promise((resolve) => setTimeout(resolve, GATHER_MS))
      while (this.waiting.length > 0) {
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
    const { store, taskId, log, options, partCount, limits: { maxResults, maxBytes } } = this
    const tail = [...log.tail, ...texts]
    const bytes = bytesOf(tail)
    if (bytes < PART_BYTES && tail.length < partCount) return this.write({ ...log, tail })
    const part = { first: log.first, run: log.run, count: tail.length, bytes }
    // The key belongs to this run, so an entry that exists is that of a try whose reply was lost.
    await this.retry(async () => store.create(partKey(taskId, part), tail.join('\n'), options))
    const parts = [...log.parts, part]
    const dropped: Part[] = []
    while (parts.length > 1 && (total(parts, 'count') > maxResults || total(parts, 'bytes') > maxBytes)) {
      dropped.push(parts.shift() as Part)
    }
    await this.replace({ ...log, parts, first: log.first + tail.length, tail: [] }, dropped)
  }

  private async replace(log: Log, dropped: readonly Part[]): Promise<void> {
    await this.write(log)
    await deleteParts(this.store, this.taskId, dropped)
  }

  /** Writes the log, unless a later run has. Repeats the write if its reply is lost. */
  private async write(log: Log): Promise<void> {
    const { store, taskId, options } = this
    const [key, value] = [logKey(taskId), encode(log)]
    for (;;) {
      const { revision } = this
      const existing = revision === undefined
        ? await this.retry(async () => {
          const outcome = await store.create(key, value, options)
          return outcome.created ? outcome : outcome.entry
        })
        : await this.retry(async () => {
          const outcome = await store.replace(key, value, revision, options)
          return outcome.replaced ? outcome : outcome.entry
        })
      // Evicted or expired.
      if (existing === undefined) {
        this.revision = undefined
        continue
      }
      const isWritten = !('value' in existing) || existing.value === value
      if (!isWritten) {
        const { run, owner } = decode(existing)
        if (run >= log.run || owner !== log.owner) throw httpError('attempt_replaced')
      }
      this.revision = existing.revision
      if (!isWritten) continue
      this.log = log
      return
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

/** A task, and the owner that its partial results must have. */
interface OwnedTask {
  readonly id: string
  readonly owner: string | undefined
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
 */
export async function readAfter(store: Store, { id, owner }: OwnedTask, after: number): Promise<Page> {
  const entry = await store.get(logKey(id))
  const log = entry && decode(entry)
  if (log?.owner !== owner || !log) return { results: [], last: after, isMore: false, from: undefined }
  const { parts, first, tail } = log
  for (const part of parts) {
    if (part.first + part.count - 1 <= after) continue
    const older = await store.get(partKey(id, part))
    // Evicted: a gap.
    if (older) return pageOf(older.value.split('\n'), part.first, after, true)
  }
  return pageOf(tail, first, after, false)
}

/** Yields the pages after `after`, up to the newest results. */
export async function* pagesAfter(
  store: Store, task: OwnedTask, after: number,
): AsyncGenerator<Page, void, undefined> {
  for (let [last, isMore] = [after, true]; isMore;) {
    const page = await readAfter(store, task, last)
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
export async function removeAll(store: Store, taskId: string): Promise<void> {
  const entry = await store.get(logKey(taskId))
  if (!entry) return
  await store.delete(logKey(taskId))
  await deleteParts(store, taskId, decode(entry).parts)
}

/** Never rejects, because they expire. */
async function deleteParts(store: Store, taskId: string, parts: readonly Part[]): Promise<void> {
  await Promise.all(parts.map(async (part) => store.delete(partKey(taskId, part)))).catch(() => undefined)
}
