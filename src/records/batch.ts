import type { MaybePromise } from '../runtime/maybe-promise.js'
import type { FailedOutcome } from './outcome.js'

/** A record that is not written, because it is not valid. */
export interface Rejected {
  /** Number of the record in the body, from 1. */
  readonly number: number
  readonly outcome: FailedOutcome
  readonly record?: unknown
  readonly excerpt?: string
}

/** Records of a body that were parsed at once, and not validated. */
export interface Block<P extends object> {
  readonly records: readonly unknown[]
  /** Number of each record in the body, from 1. Absent: the first is `first`, without gaps. */
  readonly numbers?: readonly number[]
  readonly first?: number
  /** Records that the format rejects, in their order. */
  readonly rejected?: readonly Rejected[]
  /** Number of further records that the format rejects. They are only counted. */
  readonly undescribed?: number
  /** True if certainly no string of a record has half of a surrogate pair. Default: true. */
  readonly wellFormed?: boolean
  /** Number of the last record, or line, of the block. */
  readonly last: number
  /** Place in the body at which the block begins. Absent: the body is read as a whole. */
  readonly place?: P
  /** Bytes of the body since the block before. */
  readonly bytes: number
  /** Ends the batch, before the next block is read. */
  readonly isFlushed?: boolean
}

/** Valid records that are written at once, and rejected ones between them. */
export class Batch<T> {
  readonly values: T[] = []
  /** Number of each value in the body, from 1. */
  readonly numbers: number[] = []
  readonly rejected: Rejected[] = []
  undescribed = 0
  /** Number of the last record, or line, before the next batch. */
  last = 0
  /** Place at which a later run continues. It skips the records up to `last`. */
  place: object | undefined

  /** Returns the batch without its valid records. */
  onlyRejected(): Batch<T> {
    const part = new Batch<T>()
    part.rejected.push(...this.rejected)
    part.undescribed = this.undescribed
    return part
  }

  before(count: number): Batch<T> {
    const { values, numbers, rejected, place } = this
    const next = numbers[count] ?? Infinity
    const part = new Batch<T>()
    part.values.push(...values.slice(0, count))
    part.numbers.push(...numbers.slice(0, count))
    part.rejected.push(...rejected.filter(({ number }) => number < next))
    part.place = place
    part.last = next === Infinity ? this.last : next - 1
    return part
  }
}

/** The value of a valid record, or the outcome of one that is not valid. */
type Verdict<T> = { readonly value: T } | FailedOutcome

/** Decides about one record. */
export type Judge<T> = (record: unknown, wellFormed: boolean) => MaybePromise<Verdict<T>>

/** Settings of `batchesOf`. */
export interface BatchSettings<T> {
  /** Maximum number of valid records in a batch. */
  readonly batchSize: number
  /** Absent: all records are valid. */
  readonly judge?: Judge<T> | undefined
  /** Number of records that an asynchronous `judge` gets at the same time. */
  readonly concurrency: number
  /** Number of the last record, or line, that an earlier run has committed. */
  readonly done?: number
  /**
   * Compares a valid record with all earlier records, those up to `done` included. Returns an
   * outcome if it is not written.
   */
  readonly compare?: ((value: T, number: number) => FailedOutcome | undefined) | undefined
}

/** A batch ends after this many bytes, however few records it has. */
const BATCH_BYTES = 1_048_576
/**
 * Maximum number of rejected records in a batch. They take more memory than the bytes that the
 * client has sent.
 */
const MAX_REJECTED = 4096

/** Validates the records of a body, and divides them into batches. */
export async function* batchesOf<T, P extends object>(
  blocks: Iterable<Block<P>> | AsyncIterable<Block<P>>, settings: BatchSettings<T>,
): AsyncGenerator<Batch<T>, void, undefined> {
  const batcher = new Batcher<T>(settings)
  for await (const block of blocks) {
    batcher.begin(block)
    for (let batch = await batcher.next(block); batch; batch = await batcher.next(block)) yield batch
  }
  if (!batcher.isEmpty) yield batcher.end()
}

/**
 * Does what `batchesOf` does, and passes each batch to `use`. A body that is one block needs no
 * generator, whose promises take a fifth of the time of ten items.
 */
export async function useBatches<T>(
  body: Block<object> | AsyncIterable<Block<object>>, settings: BatchSettings<T>,
  use: (batch: Batch<T>) => Promise<void>,
): Promise<void> {
  if (!('records' in body)) {
    for await (const batch of batchesOf(body, settings)) await use(batch)
    return
  }
  const batcher = new Batcher<T>(settings)
  batcher.begin(body)
  const next = (): MaybePromise<Batch<T> | undefined> => batcher.next(body, true)
  for (let batch = await next(); batch; batch = await next()) await use(batch)
}

class Batcher<T> {
  private batch = new Batch<T>()
  /** Index of the next record of the block. */
  private at = 0
  /** Number of bytes of the body since the last batch. */
  private bytes = 0
  /** Number of rejected records of the current block that were added to a batch. */
  private rejected = 0

  constructor(private readonly settings: BatchSettings<T>) {}

  get isEmpty(): boolean {
    const { values, rejected, undescribed } = this.batch
    return values.length + rejected.length + undescribed === 0
  }

  begin({ bytes, place }: Block<object>): void {
    this.at = 0
    this.bytes += bytes
    this.rejected = 0
    this.batch.place = place
  }

  /**
   * Adds records of the block. Returns a batch that is full, or has the last records of the body;
   * `undefined` at the end of the block.
   */
  next(block: Block<object>, isLast = false): MaybePromise<Batch<T> | undefined> {
    const { batch: { values, rejected }, settings: { batchSize } } = this
    const { length } = block.records
    if (this.at > length) return undefined
    while (this.at < length && values.length < batchSize) {
      const verdict = this.judge(block, this.at)
      // An await for each record would double the cost of a synchronous schema.
      if (verdict instanceof Promise) {
        return this.takeTogether(block, verdict).then(() => this.next(block, isLast))
      }
      this.settle(block, this.at++, verdict)
    }
    if (values.length >= batchSize) return this.end()
    this.finish(block)
    this.at = length + 1
    const isLarge = this.bytes >= BATCH_BYTES || rejected.length >= MAX_REJECTED
    return block.isFlushed || isLarge || (isLast && !this.isEmpty) ? this.end() : undefined
  }

  /** Adds up to `concurrency` records whose judge is asynchronous. */
  private async takeTogether(
    block: Block<object>, first: Promise<Verdict<T> | undefined>,
  ): Promise<void> {
    const { at: index, batch: { values }, settings: { batchSize, concurrency } } = this
    const count = Math.min(concurrency, batchSize - values.length, block.records.length - index)
    const verdicts: MaybePromise<Verdict<T> | undefined>[] = [first]
    for (let at = 1; at < count; at++) verdicts.push(this.judge(block, index + at))
    // A later one may reject before it is awaited.
    for (const verdict of verdicts) if (verdict instanceof Promise) verdict.catch(() => undefined)
    for (const [at, verdict] of verdicts.entries()) this.settle(block, index + at, await verdict)
    this.at = index + count
  }

  private judge(
    { records, numbers, first = 1, wellFormed = true }: Block<object>, at: number,
  ): MaybePromise<Verdict<T> | undefined> {
    const { judge, done = 0, compare } = this.settings
    const isNeeded = numberAt(numbers, first, at) > done || compare !== undefined
    return isNeeded ? judge?.(records[at], wellFormed) : undefined
  }

  private settle(
    { records, numbers, first = 1, rejected }: Block<object>, at: number,
    verdict: Verdict<T> | undefined,
  ): void {
    const { batch, settings: { done = 0, compare } } = this
    const number = numberAt(numbers, first, at)
    const value = verdict !== undefined && 'value' in verdict ? verdict.value : records[at] as T
    const outcome = verdict !== undefined && 'error' in verdict ? verdict : compare?.(value, number)
    if (number <= done) return
    if (rejected !== undefined && this.rejected < rejected.length) this.reject(rejected, number)
    if (outcome === undefined) {
      batch.values.push(value)
      batch.numbers.push(number)
    } else batch.rejected.push({ number, outcome, record: records[at] })
    batch.last = number
  }

  /** Adds the rejected records after the last valid record of a block. */
  private finish({ rejected = [], undescribed = 0, last }: Block<object>): void {
    this.reject(rejected, Infinity)
    this.batch.undescribed += undescribed
    this.batch.last = Math.max(last, this.settings.done ?? 0)
  }

  end(): Batch<T> {
    const { batch } = this
    this.batch = new Batch()
    this.batch.place = batch.place
    this.batch.last = batch.last
    this.bytes = 0
    return batch
  }

  private reject(rejected: readonly Rejected[], before: number): void {
    const { done = 0 } = this.settings
    for (; this.rejected < rejected.length; this.rejected++) {
      const each = rejected[this.rejected] as Rejected
      if (each.number > before) return
      if (each.number > done) this.batch.rejected.push(each)
    }
  }
}

function numberAt(numbers: readonly number[] | undefined, first: number, at: number): number {
  return numbers === undefined ? first + at : numbers[at] as number
}
