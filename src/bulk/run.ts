import { httpError } from '../http/errors.js'
import type { Batch } from './batch.js'
import { isAborted, isRepeated, throwIfAborted, type BulkRun } from './bulk-run.js'
import { NOT_APPLIED, UNKNOWN_OUTCOME } from './item-error.js'
import type { Report } from './report.js'
import { batchesOf, type BulkBody } from './request-body.js'
import type { BulkSettings, Transaction, Writer } from './settings.js'
import { validateBatch, type SeenKeys } from './validate-batch.js'
import { isReplaced } from '../tasks/definition/resume.js'
import { writeAll, writeEach } from './write-batch.js'

/**
 * Validates and writes all items of a body, and reports the outcome of each. Rejects with the
 * reason of an abort, or with the error of the transaction. The report is valid after a rejection,
 * too.
 *
 * @param itemCount - number of all items
 */
export async function runBulk<T>(
  run: BulkRun<T>, body: BulkBody, itemCount: number, report: Report,
): Promise<void> {
  const { settings: { transaction }, call } = run
  if (transaction) {
    await runAtomic(run, body, itemCount, report, transaction)
    return
  }
  const seen = newSeenKeys(run.settings)
  for await (const parsed of batchesOf(body)) {
    throwIfAborted(call)
    const batch = await validateBatch(run, parsed, seen)
    const finished = await writeEach(run, batch)
    report.add(batch)
    if (!finished) throwIfAborted(call)
    await report.flush()
  }
}

/** Returns an empty map of keys if the items of a body are compared. */
export function newSeenKeys<T>({ key }: BulkSettings<T>): SeenKeys | undefined {
  return key === undefined ? undefined : new Map()
}

/** Writes all items in one transaction, or none. */
async function runAtomic<T>(
  run: BulkRun<T>, body: BulkBody, itemCount: number, report: Report, transaction: Transaction<T>,
): Promise<void> {
  // A small batch is validated before the transaction begins, so that no connection waits for it.
  const whole = body.whole && await validateBatch(run, body.whole, newSeenKeys(run.settings))
  if (whole?.values.length === 0) {
    report.addNotApplied(whole)
    return
  }
  let end: 'failed' | 'written' | undefined
  try {
    await transaction(async (writer) => {
      end = undefined
      report.restart(0, NOT_APPLIED)
      const batches = whole ? [whole.copy()] : validated(run, body)
      if (!await writeBatches(run, batches, writer, report)) {
        end = 'failed'
        throw httpError('batch_failed')
      }
      throwIfAborted(run.call)
      end = 'written'
    }, run.transactionCall ?? run.call)
    if (end !== 'written') {
      throw new TypeError('transaction resolved although its work had not')
    }
  } catch (error) {
    if (end === 'failed') return
    const isExact = run.settings.resume !== undefined
    const isUnknown = end === 'written' && !isReplaced(error) && !isRepeated(run, error, isExact)
    report.restart(itemCount, isUnknown ? UNKNOWN_OUTCOME : NOT_APPLIED)
    if (!isUnknown) throw error
    // All items were written and then the commit failed: it is unknown if it took effect.
    run.reportError(error)
  }
}

async function* validated<T>(
  run: BulkRun<T>, body: BulkBody,
): AsyncGenerator<Batch<T>, void, undefined> {
  const seen = newSeenKeys(run.settings)
  for await (const parsed of batchesOf(body)) yield await validateBatch(run, parsed, seen)
}

/**
 * Writes batches inside a transaction, and reports them. After an item that fails, continues with
 * the others, so that the report names all items that have to be changed. Returns false if an item
 * has failed.
 */
async function writeBatches<T>(
  run: BulkRun<T>, batches: Iterable<Batch<T>> | AsyncIterable<Batch<T>>, writer: Writer<T>,
  report: Report,
): Promise<boolean> {
  let failed = false
  let stopped = false
  for await (const batch of batches) {
    throwIfAborted(run.call)
    try {
      stopped ||= !await writeAll(run, batch, writer)
    } catch (error) {
      failed ||= batch.errors.size > 0
      if (!failed || isAborted(run.call)) throw error
      // Nothing is going to be written anyway. The repository cannot continue after a failed item.
      run.reportError(error)
      stopped = true
    }
    if (!failed && batch.errors.size > 0) {
      failed = true
      report.restart(batch.start, NOT_APPLIED)
    }
    if (failed) report.addNotApplied(batch)
    else report.add(batch)
    await report.flush()
  }
  return !failed
}
