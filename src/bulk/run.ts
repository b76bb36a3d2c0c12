import { httpError } from '../http/errors.js'
import type { Batch, ParsedBatch } from './batch.js'
import { throwIfAborted, type BulkRun } from './bulk-run.js'
import { NOT_APPLIED, UNKNOWN_OUTCOME } from './item-error.js'
import type { Report } from './report.js'
import type { BulkBody } from './request-body.js'
import type { BulkSettings, Transaction } from './settings.js'
import { validateBatch, type SeenKeys } from './validate-batch.js'
import { writeAll, writeEach } from './write-batch.js'

/**
 * Validates and writes all items of a body, and reports the outcome of each. Rejects with the error
 * that ended the reading, with the reason of an abort, or with the error of the transaction. The
 * report is valid after a rejection, too.
 */
export async function runBulk<T>(run: BulkRun<T>, body: BulkBody, report: Report): Promise<void> {
  const { transaction } = run.settings
  const seen = body.whole ? newSeenKeys(run.settings) : undefined
  if (transaction) {
    await runAtomic(run, body, seen, report, transaction)
    return
  }
  for await (const parsed of body.batches) {
    throwIfAborted(run.call)
    const batch = await validateBatch(run, parsed, seen)
    const finished = await writeEach(run, batch)
    report.add(batch)
    if (!finished) throwIfAborted(run.call)
    await report.flush()
  }
  // A streamed body; an empty array that is read as a whole is refused when it is read.
  if (report.total === 0) throw httpError('empty_batch')
}

/** Returns an empty map of keys if the items of a body are compared. */
export function newSeenKeys<T>({ key }: BulkSettings<T>): SeenKeys | undefined {
  return key === undefined ? undefined : new Map()
}

/** Reads and validates batches one by one. */
class BatchReader<T> {
  /** Number of items that were read. */
  itemCount = 0
  private readonly source: AsyncIterator<ParsedBatch> | Iterator<ParsedBatch>

  constructor(
    private readonly run: BulkRun<T>, { batches }: BulkBody,
    private readonly seen: SeenKeys | undefined,
  ) {
    this.source = Symbol.asyncIterator in batches
      ? batches[Symbol.asyncIterator]()
      : batches[Symbol.iterator]()
  }

  /** Returns the next batch; `undefined` after the last one. */
  async next(): Promise<Batch<T> | undefined> {
    const step = await this.source.next()
    if (step.done === true) return undefined
    const batch = await validateBatch(this.run, step.value, this.seen)
    this.itemCount = batch.start + batch.size
    return batch
  }

  async close(): Promise<void> {
    await this.source.return?.()
  }
}

/** Writes all items in one transaction, or none. */
async function runAtomic<T>(
  run: BulkRun<T>, body: BulkBody, seen: SeenKeys | undefined, report: Report,
  transaction: Transaction<T>,
): Promise<void> {
  const reader = new BatchReader(run, body, seen)
  try {
    // The first batch is validated before the transaction begins: most bad bodies need none.
    const first = await reader.next()
    if (first === undefined) throw httpError('empty_batch')
    const failed = first.errors.size > 0
      ? first
      : await writeInTransaction(run, first, reader, report, transaction)
    if (failed !== undefined) await reportNotApplied(run, failed, reader, report)
  } catch (error) {
    if (report.succeeded > 0 || report.total < reader.itemCount) {
      report.restart(reader.itemCount, NOT_APPLIED)
    }
    throw error
  } finally {
    await reader.close()
  }
}

/**
 * Reports that nothing was written because of the errors in `failed`. Reads the remaining batches,
 * so that the report has the errors of their items.
 */
async function reportNotApplied<T>(
  run: BulkRun<T>, failed: Batch<T>, reader: BatchReader<T>, report: Report,
): Promise<void> {
  report.restart(failed.start, NOT_APPLIED)
  report.addNotApplied(failed)
  for (let batch = await reader.next(); batch !== undefined; batch = await reader.next()) {
    report.addNotApplied(batch)
    await report.flush()
    throwIfAborted(run.call)
  }
}

/**
 * Returns the batch whose errors stopped the transaction; `undefined` if there was none. Rejects if
 * nothing was written for another reason.
 */
async function writeInTransaction<T>(
  run: BulkRun<T>, first: Batch<T>, reader: BatchReader<T>, report: Report,
  transaction: Transaction<T>,
): Promise<Batch<T> | undefined> {
  let batch: Batch<T> | undefined = first
  let streamed = false
  let done = false
  try {
    await transaction(async (writer) => {
      if (streamed) {
        throw new TypeError('transaction called its work again, but the streamed items are gone;'
          + ' retry only smaller batches')
      }
      batch = first
      done = false
      report.restart(0, NOT_APPLIED)
      for (;;) {
        if (batch.errors.size > 0) throw httpError('batch_failed')
        await writeAll(run, batch, writer)
        report.add(batch)
        await report.flush()
        const next: Batch<T> | undefined = await reader.next()
        if (next === undefined) break
        batch = next
        streamed = true
      }
      throwIfAborted(run.call)
      done = true
    }, run.transactionCall ?? run.call)
    if (!done) throw new TypeError('transaction resolved although its work had not')
  } catch (error) {
    if (batch.errors.size > 0) return batch
    if (!done) throw error
    // All items were written and then the commit failed: it is unknown if it took effect.
    run.reportError(error)
    report.restart(reader.itemCount, UNKNOWN_OUTCOME)
  }
  return undefined
}
