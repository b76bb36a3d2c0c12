import { httpError, isReplaced } from '../http/errors.js'
import { batchesOf, type Batch } from '../records/batch.js'
import { NOT_APPLIED, UNKNOWN_OUTCOME, type RecordOutcome } from '../records/outcome.js'
import type { Report } from '../records/report.js'
import { isAborted, throwIfAborted } from '../records/write-loop.js'
import type { BulkBody } from './body.js'
import { findDuplicates, judgeItems } from './judge.js'
import type { RunInTransaction, Writer } from './options.js'
import { isRepeated, writeInside, type BulkCall, type BulkRun } from './write.js'

interface AtomicBody<T> {
  readonly transaction: RunInTransaction<T>
  readonly body: BulkBody
  readonly itemCount: number
  /** Passed to the transaction. Default: that of the run. */
  readonly call?: BulkCall
}

/**
 * Writes all items of a body in one transaction, or none, and reports the outcome of each. Rejects
 * with the reason of an abort, or with the error of the transaction.
 */
export async function writeAtomic<T>(
  run: BulkRun<T>, { transaction, body, itemCount, call = run.call }: AtomicBody<T>, report: Report,
): Promise<void> {
  const batches = () => batchesOf<T, object>(body.whole ? [body.whole] : body.open(), {
    batchSize: body.whole ? Infinity : run.settings.batchSize,
    concurrency: run.settings.concurrency,
    judge: judgeItems(run), compare: findDuplicates(run.settings),
  })
  // A small body is validated before the transaction begins, so that no connection waits for it.
  const whole: Batch<T>[] = []
  if (body.whole) for await (const batch of batches()) whole.push(batch)
  if (body.whole && whole.every(({ values }) => values.length === 0)) {
    for (const batch of whole) report.addNotApplied(batch)
    return
  }
  let end: 'failed' | 'written' | undefined
  try {
    await transaction(async (writer) => {
      end = undefined
      report.restart(0, NOT_APPLIED)
      if (!await writeBatches(run, body.whole ? whole : batches(), writer, report)) {
        end = 'failed'
        throw httpError('batch_failed')
      }
      throwIfAborted(run.call)
      end = 'written'
    }, call)
    if (end !== 'written') {
      throw new TypeError('transaction has resolved before its work; await work(…) in it')
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

/**
 * Writes batches inside a transaction. After a failed item, continues with the others, so that the
 * report names all items that must be corrected. Returns false if an item has failed.
 */
async function writeBatches<T>(
  run: BulkRun<T>, batches: Iterable<Batch<T>> | AsyncIterable<Batch<T>>, writer: Writer<T>,
  report: Report,
): Promise<boolean> {
  let hasFailed = false
  let isStopped = false
  for await (const batch of batches) {
    throwIfAborted(run.call)
    const { values, rejected } = batch
    const outcomes: RecordOutcome[] = []
    const isBad = (): boolean => rejected.length > 0 || outcomes.some(({ error }) => error)
    try {
      if (!isStopped) await writeInside(run, values, writer, outcomes)
      isStopped ||= outcomes.length < values.length
    } catch (error) {
      if (!(hasFailed || isBad()) || isAborted(run.call)) throw error
      // The transaction fails in any case, and the repository cannot continue after a failed item.
      run.reportError(error)
      isStopped = true
    }
    if (!hasFailed && isBad()) {
      hasFailed = true
      report.restart(report.total, NOT_APPLIED)
    }
    if (hasFailed) report.addNotApplied(batch, outcomes)
    else report.add(batch, outcomes)
    await report.flush()
  }
  return !hasFailed
}
