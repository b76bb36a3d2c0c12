import { httpError } from '../http/errors.js'
import type { Call } from '../repositories/repository.js'
import type { ArrayPosition } from '../json-array/array-position.js'
import type { Batch, ParsedBatch } from './batch.js'
import { isAborted, throwIfAborted, type BulkRun } from './bulk-run.js'
import { itemsOf, type BulkPosition } from './bulk-position.js'
import { UNKNOWN_OUTCOME } from './item-error.js'
import { Report } from './report.js'
import { batchesOf, type BulkBody } from './request-body.js'
import { newSeenKeys, runBulk } from './run.js'
import type { StoredReport } from './stored-report.js'
import { validateBatch } from './validate-batch.js'
import { setOutcomes, writeEach } from './write-batch.js'

/** The part of a bulk task that lets a later run continue. */
export interface Resumption {
  /** Position at which this run begins. The report has been continued there. */
  readonly from: BulkPosition
  /** The cursor that the application has stored. */
  readonly previous: string | undefined
  /** Number of all items. */
  readonly itemCount: number
  readonly report: Report
  readonly stored: StoredReport
  /** Commits a position. */
  readonly commit: (position: BulkPosition) => Promise<void>
}

/**
 * Does the work of a bulk task, from a position on, and commits the position after each
 * `batchSize` items. Rejects as `runBulk` does. An atomic batch is committed as a whole, after its
 * transaction.
 */
export async function continueBulk<T>(
  run: BulkRun<T>, body: BulkBody, resumption: Resumption,
): Promise<void> {
  if (run.settings.transaction) await runWhole(run, body, resumption)
  else await runInParts(run, body, resumption)
}

async function runWhole<T>(
  run: BulkRun<T>, body: BulkBody, resumption: Resumption,
): Promise<void> {
  const { report, itemCount } = resumption
  const cursor: Call['cursor'] = () => {
    if (report.total === itemCount) return JSON.stringify(positionOf(resumption, undefined))
    throw new TypeError('cursor: call it in transaction, after work has resolved')
  }
  const { previous } = resumption
  const transactionCall = { ...run.call, cursor, previous }
  await runBulk({ ...run, transactionCall }, body, itemCount, report)
  await commit(resumption, undefined)
}

async function runInParts<T>(
  run: BulkRun<T>, body: BulkBody, resumption: Resumption,
): Promise<void> {
  const { settings: { batchSize, resume }, call, attempt } = run
  const { report, from } = resumption
  const done = itemsOf(from)
  let { previous } = resumption
  const seen = body.whole && newSeenKeys(run.settings)
  for await (const parsed of batchesOf(body, from.place)) {
    throwIfAborted(call)
    if (parsed.start + parsed.items.length <= done) continue
    // All items of a whole body are validated again, because later ones may have the same key.
    const batch = await validateBatch(run, seen ? parsed : itemsFrom(done, parsed), seen)
    for (const part of batch.divide(batchSize, Math.max(done - batch.start, 0))) {
      throwIfAborted(call)
      const { place } = parsed
      const positionAfter = cursorOf(run, part, resumption, place)
      let stored: string | undefined
      const cursor: Call['cursor'] = positionAfter && ((outcomes) => (
        stored = positionAfter(outcomes)
      ))
      const finished = await writeEach({ ...run, call: { ...call, cursor, previous } }, part)
      const { stopped } = part
      const isUnknown = hasUnknown(part)
      // A call that failed has stored nothing.
      if (!isUnknown) previous = stored ?? previous
      const known = part.untilStop()
      if (known.size > 0) report.add(known)
      // A write that was aborted may have failed for that reason. A later run repeats it.
      if (isAborted(call) && (!finished || isUnknown)) throwIfAborted(call)
      if (known.size > 0) await commit(resumption, place)
      if (stopped) throw stopped.error
      // The database may be unavailable, so the next batch waits for the next attempt.
      if (isUnknown && !resume && !attempt?.isLast) throw httpError('write_outcome_unknown')
    }
  }
}

function itemsFrom(index: number, parsed: ParsedBatch): ParsedBatch {
  const { start, items } = parsed
  return index <= start ? parsed : { ...parsed, start: index, items: items.slice(index - start) }
}

/** Returns the `cursor` of the call that writes a part. */
function cursorOf<T>(
  run: BulkRun<T>, part: Batch<T>, { report, stored }: Resumption,
  place: ArrayPosition | undefined,
): Call['cursor'] {
  const { settings } = run
  if (settings.writer.many === undefined) return undefined
  return (outcomes) => {
    if (outcomes === undefined) {
      throw new TypeError('cursor: pass the outcomes that createMany or updateMany returns')
    }
    const written = part.copy()
    setOutcomes(run, written, 0, outcomes)
    let text = ''
    const { separator } = stored
    const add = (items: string): void => { text = items }
    const after = new Report({ separator, add, restart: () => undefined }, settings, 'all')
    after.continueFrom(report.counts)
    after.add(written)
    return JSON.stringify({ ...after.counts, place, report: stored.textWith(text) })
  }
}

async function commit(resumption: Resumption, place: ArrayPosition | undefined): Promise<void> {
  await resumption.stored.shorten()
  await resumption.commit(positionOf(resumption, place))
}

function positionOf(
  { report, stored }: Resumption, place: ArrayPosition | undefined,
): BulkPosition {
  return { ...report.counts, place, report: stored.textWith('') }
}

function hasUnknown({ errors }: Batch<unknown>): boolean {
  return [...errors.values()].includes(UNKNOWN_OUTCOME)
}
