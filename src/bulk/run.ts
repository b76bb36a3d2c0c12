import { after, type MaybePromise } from '../runtime/maybe-promise.js'
import { httpError } from '../http/errors.js'
import type { Batch, RawBatch } from './batch.js'
import { NOT_APPLIED, UNKNOWN_OUTCOME } from './fault.js'
import type { Intake } from './intake.js'
import { judgeBatch, type SeenKeys } from './judge-batch.js'
import { throwIfOver, type Plan, type Run } from './plan.js'
import type { Report } from './report.js'
import { writeAll, writeEach } from './write-batch.js'

/**
 * Judges and writes all that comes in, and writes down what became of each item. Rejects (throws,
 * where nothing was waited for) with what ends the reading, what aborted the run, and, where the
 * batch is atomic, what the transaction failed with; what the report says then is still true.
 */
export function runBulk<T>(run: Run<T>, intake: Intake, report: Report): MaybePromise<void> {
  const { transaction } = run.plan
  if (transaction) return runAtomic(run, intake, report, transaction)
  // What is there already is not waited for: with ten items, promises cost as much as the items.
  return intake.whole ? writeOne(run, intake.batches[0], seenKeys(run.plan), report) : runEach(run, intake.batches, report)
}

async function runEach<T>(run: Run<T>, batches: AsyncIterable<RawBatch>, report: Report): Promise<void> {
  for await (const raw of batches) await writeOne(run, raw, undefined, report)
  // Small bodies are refused sooner.
  if (report.total === 0) throw httpError('empty_batch')
}

function writeOne<T>(run: Run<T>, raw: RawBatch, seen: SeenKeys | undefined, report: Report): MaybePromise<void> {
  throwIfOver(run.call)
  return after(judgeBatch(run, raw, seen), (batch) => after(writeEach(run, batch), (ended) => {
    report.add(batch)
    if (!ended) throwIfOver(run.call)
    return report.flush()
  }))
}

type Transaction<T> = NonNullable<Plan<T>['transaction']>

async function runAtomic<T>(run: Run<T>, { batches, whole }: Intake, report: Report, transaction: Transaction<T>): Promise<void> {
  const seen = whole ? seenKeys(run.plan) : undefined
  const source = iterate(batches)
  let taken = 0
  const next = async (): Promise<Batch<T> | undefined> => {
    const step = await source.next()
    if (step.done === true) return undefined
    const batch = await judgeBatch(run, step.value, seen)
    taken = batch.start + batch.size
    return batch
  }
  try {
    // Judged before the transaction is begun: most faulty batches need none.
    let batch = await next()
    if (batch === undefined) throw httpError('empty_batch')
    if (batch.faults.size === 0) {
      const outcome = await inTransaction(run, batch, next, report, transaction, () => taken)
      if (outcome === 'applied') return
      batch = outcome
    }
    report.restart(batch.start, NOT_APPLIED)
    report.addNotApplied(batch)
    // Nothing more is written, but each item is told what is wrong with it.
    for (let rest = await next(); rest !== undefined; rest = await next()) {
      report.addNotApplied(rest)
      await report.flush()
      throwIfOver(run.call)
    }
  } catch (error) {
    if (report.succeeded > 0 || report.total < taken) report.restart(taken, NOT_APPLIED)
    throw error
  } finally {
    await source.return?.()
  }
}

/**
 * The batch that stopped it, or that all went well. Rejects when nothing was applied for another
 * reason.
 */
async function inTransaction<T>(
  run: Run<T>, first: Batch<T>, next: () => Promise<Batch<T> | undefined>, report: Report, transaction: Transaction<T>, taken: () => number,
): Promise<Batch<T> | 'applied'> {
  let batch: Batch<T> | undefined = first
  let later = false
  let done = false
  try {
    await transaction(async (writer) => {
      if (later) throw new TypeError('transaction called its work again, but what was streamed is gone; retry only smaller batches')
      batch = first
      done = false
      report.restart(0, NOT_APPLIED)
      for (;;) {
        if (batch.faults.size > 0) throw httpError('batch_failed')
        await writeAll(run, batch, writer)
        report.add(batch)
        await report.flush()
        const following: Batch<T> | undefined = await next()
        if (following === undefined) break
        batch = following
        later = true
      }
      throwIfOver(run.call)
      done = true
    }, run.call)
    if (!done) throw new TypeError('transaction resolved although its work had not')
    return 'applied'
  } catch (error) {
    if (batch.faults.size > 0) return batch
    if (!done) throw error
    // All was written, and then the transaction failed: nobody knows whether it had been committed.
    run.tell(error)
    report.restart(taken(), UNKNOWN_OUTCOME)
    return 'applied'
  }
}

function seenKeys<T>({ key }: Plan<T>): SeenKeys | undefined {
  return key === undefined ? undefined : new Map()
}

function iterate<T>(batches: Iterable<T> | AsyncIterable<T>): AsyncIterator<T> | Iterator<T> {
  return Symbol.asyncIterator in batches ? batches[Symbol.asyncIterator]() : batches[Symbol.iterator]()
}
