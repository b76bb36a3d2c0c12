import type { BulkItem, BulkReport as SentReport } from '../wire/report.js'
import { Transfer } from './download.js'
import {
  checkNames, checkWhole, ClientError, isClientError, isObject, unchecked,
} from './errors.js'
import { readNdjson } from './ndjson.js'
import type { Settings } from './options.js'
import { newKey } from './retry.js'
import { toUrlBelow } from './status-resource.js'
import { start as submit, WORK, type SubmitOptions } from './submit.js'

/** Options of `bulk`. */
export interface BulkOptions extends Omit<SubmitOptions, 'wait'> {
  /** HTTP method of the first request. Updates use PATCH. Default: POST. */
  readonly method?: string
  /**
   * JSON pointer to the array in the body, such as `/updates` for `{ updates: […] }`. Default:
   * `''`.
   */
  readonly items?: string
  /**
   * Maximum number of items in one request. Default: 1000.
   *
   * After a 413 the client sends fewer.
   */
  readonly maxItems?: number
  /** Maximum size of one request body in bytes. Default: 1 MiB. */
  readonly maxBodyBytes?: number
  /** Concurrent requests. More than one may change the order of items. Default: 1. */
  readonly concurrency?: number
  /** Asks the server to do the work as a task. Default: false. */
  readonly background?: boolean
  /**
   * Sends `Prefer: handling` (RFC 7240 section 4.4). `lenient`: a batch that is atomic by default
   * is applied in part. Default: the server decides.
   *
   * The report names the failed items. The server may ignore the preference.
   */
  readonly handling?: 'strict' | 'lenient'
  /** Called after each request. */
  readonly onProgress?: (progress: { readonly done: number; readonly total: number }) => void
}

/** The outcome of a bulk request, with its items. */
export type BulkReport = Required<SentReport>

const POINTER = /^(?:\/(?:[^~/]|~[01])*)*$/
/** Methods with which a request without items changes nothing. A PUT may delete records. */
const ASKS_HARMLESSLY = new Set(['POST', 'PATCH'])
const ONLY_FAILED = /[?&]only=failed(?:[&#]|$)/
const BULK_FAILED = Symbol.for('longhaul.BulkFailedError')

/** A bulk operation that failed in part or as a whole. Test for it with `isBulkFailed`. */
export class BulkFailedError extends Error {
  override readonly name = 'BulkFailedError'
  readonly [BULK_FAILED] = true
  /** Cause of the failure: a `ClientError`, a `TaskFailedError`, or the reason of the signal. */
  override readonly cause: unknown
  /** Outcomes before the failure. Any other item was not sent, or its outcome is unknown. */
  readonly report: BulkReport

  constructor(cause: unknown, report: BulkReport) {
    const reason = cause instanceof Error ? cause.message : String(cause)
    super(`The bulk request ended after ${report.summary.total} items: ${reason}`)
    this.cause = cause
    this.report = report
  }
}

/**
 * Returns true for a `BulkFailedError` of any copy of this package.
 * @example
 * try {
 *   await api.bulk('/users/bulk', users)
 * } catch (error) {
 *   if (!isBulkFailed(error)) throw error
 *   console.error(error.cause, error.report.summary)
 * }
 */
export function isBulkFailed(error: unknown): error is BulkFailedError {
  return isObject(error) && BULK_FAILED in error
}

interface Batch {
  readonly start: number
  readonly texts: readonly string[]
}

const encoder = /* @__PURE__ */ new TextEncoder()

export async function bulk(
  settings: Settings, path: string, items: readonly unknown[], options: BulkOptions = {},
): Promise<BulkReport> {
  checkNames('bulk', options, [
    ...WORK, 'method', 'items', 'maxItems', 'maxBodyBytes', 'concurrency', 'handling', 'onProgress',
  ])
  const { maxItems = 1000, maxBodyBytes = 1_048_576, concurrency = 1, onProgress } = options
  checkWhole('bulk', { maxItems, maxBodyBytes, concurrency })
  if (!POINTER.test(options.items ?? '')) {
    throw new TypeError("bulk: items must be a JSON pointer such as '/updates'")
  }
  if (![undefined, 'strict', 'lenient'].includes(options.handling)) {
    throw new TypeError("bulk: handling must be 'strict' or 'lenient'")
  }
  const run = new Run(settings, path, items, { ...options, maxItems, maxBodyBytes })
  const work = async (): Promise<void> => {
    try {
      for (let batch = run.next(); batch; batch = run.next()) {
        const before = run.done
        await run.send(batch)
        if (run.done > before) onProgress?.({ done: run.done, total: items.length })
      }
    } catch (error) {
      run.failure ??= { error }
    }
  }
  await Promise.all(Array.from({ length: Math.min(concurrency, items.length) }, work))
  if (run.failure) throw new BulkFailedError(run.failure.error, run.report)
  return run.report
}

class Run {
  done = 0
  failure: { readonly error: unknown } | undefined
  private readonly reports: BulkReport[] = []
  private readonly pointer: string
  private readonly around: readonly [before: string, after: string]
  private readonly key: string | false
  private nextIndex = 0
  /** Parts of batches that were too large. The last element is sent next. */
  private readonly parts: Batch[] = []
  private maxItems: number

  constructor(
    private readonly settings: Settings, private readonly path: string,
    private readonly items: readonly unknown[],
    private readonly options: BulkOptions & Readonly<{ maxItems: number; maxBodyBytes: number }>,
  ) {
    this.maxItems = options.maxItems
    this.pointer = options.items ?? ''
    this.around = textAround(this.pointer)
    this.key = options.idempotencyKey ?? newKey()
  }

  get report(): BulkReport {
    const summary = { total: 0, succeeded: 0, failed: 0 }
    for (const { summary: { total, succeeded, failed } } of this.reports) {
      summary.total += total
      summary.succeeded += succeeded
      summary.failed += failed
    }
    const items = this.reports.flatMap((report) => report.items)
    return { summary, items: items.sort((a, b) => a.index - b.index) }
  }

  /** Returns the next batch. `undefined` if there is none, or after a failure. */
  next(): Batch | undefined {
    if (this.failure) return undefined
    const part = this.parts.pop()
    if (part) return part
    const { items, nextIndex: start, around, options: { maxBodyBytes } } = this
    const texts: string[] = []
    let bytes = 2 + encoder.encode(around.join('')).length
    while (this.nextIndex < items.length && texts.length < this.maxItems) {
      const text = JSON.stringify(items[this.nextIndex]) as string | undefined ?? 'null'
      bytes += encoder.encode(text).length + 1
      if (bytes > maxBodyBytes && texts.length > 0) break
      texts.push(text)
      this.nextIndex++
    }
    return texts.length === 0 ? undefined : { start, texts }
  }

  /** Sends a batch. If it was too large, its items without an outcome become smaller batches. */
  async send(batch: Batch): Promise<void> {
    const { start, texts: { length } } = batch
    const { report, error } = await this.request(batch)
    if (report) this.add(start, report)
    const open = error === undefined ? [] : openItems(report, length)
    const answered = length - open.length
    this.done += answered
    if (error === undefined || open.length === 0) return
    if (error.status !== 413) throw error
    if (length > 1) {
      this.divide(batch, open, answered || Math.ceil(length / 2))
      return
    }
    const { code, message } = error
    this.add(start, {
      summary: { total: 1, succeeded: 0, failed: 1 },
      items: [{ index: 0, status: 413, error: { code, message } }],
    })
    this.done++
  }

  /**
   * Returns the report of a request, which may come with an error. Rejects if there is no report.
   */
  private async request(
    { start, texts }: Batch,
  ): Promise<{ readonly report?: BulkReport | undefined, readonly error?: ClientError }> {
    const { settings, path, key, options, around } = this
    const { method = 'POST', signal, headers, statusPath, background = false, handling } = options
    const body = around.join(`[${texts.join(',')}]`)
    let found: unknown
    try {
      const task = await submit<unknown>(settings, path, {
        method, body: () => body, background,
        // Half of a batch is another request, so it has another key.
        idempotencyKey: key === false ? false : `${key}-${start}-${texts.length}`,
        isOwnKey: options.idempotencyKey === undefined,
        question: ASKS_HARMLESSLY.has(method.toUpperCase()) && around.join('[]'),
        ...signal && { signal }, ...headers && { headers }, ...handling && { handling },
        ...statusPath !== undefined && { statusPath },
      })
      found = await task.result(signal && { signal })
      if (task.statusUrl !== undefined && isSummary(found)) {
        found = { ...found, items: await this.storedItems(task.statusUrl) }
      }
    } catch (error) {
      const report = isClientError(error) ? readReport(error.body) : undefined
      if (!isClientError(error) || !(report || error.status === 413)) throw error
      return { report, error }
    }
    const report = readReport(found)
    if (report) return { report }
    const message = 'The response is not the report of a bulk request.'
    throw new ClientError('bad_answer', message, { status: 200, body: found })
  }

  /** Reads the items of a report that is too large for the status of its task. */
  private async storedItems(statusUrl: string): Promise<BulkItem[]> {
    const { settings, path, options: { signal } } = this
    const url = toUrlBelow(new URL(statusUrl), 'items')
    if (ONLY_FAILED.test(path)) url.searchParams.set('only', 'failed')
    const bytes = new Transfer(settings, url, signal ? { signal } : {}, settings.base.origin)
    const items: BulkItem[] = []
    const lines = readNdjson<BulkItem>(bytes, { maxLineBytes: Number.MAX_SAFE_INTEGER })
    for await (const item of lines) items.push(item)
    return items
  }

  /** Adds a report, with indexes and pointers counted from the first item of all. */
  private add(start: number, { summary, items }: BulkReport): void {
    const moved = items.map((item) => {
      const index = item.index + start
      if (start === 0 || !item.error?.details) return { ...item, index }
      const [from, to] = [`${this.pointer}/${item.index}`, `${this.pointer}/${index}`]
      const details = item.error.details.map((detail) => (detail.pointer.startsWith(from)
        ? { ...detail, pointer: `${to}${detail.pointer.slice(from.length)}` }
        : detail))
      return { ...item, index, error: { ...item.error, details } }
    })
    this.reports.push({ summary, items: moved })
  }

  private divide({ start, texts }: Batch, open: readonly number[], maxItems: number): void {
    this.maxItems = Math.min(this.maxItems, maxItems)
    const parts: Batch[] = []
    for (let from = 0; from < open.length;) {
      const first = open[from] as number
      let size = 1
      while (size < this.maxItems && open[from + size] === first + size) size++
      parts.push({ start: start + first, texts: texts.slice(first, first + size) })
      from += size
    }
    this.parts.push(...parts.reverse())
  }
}

/** Returns true for a report without its items. */
function isSummary(body: unknown): body is Omit<SentReport, 'items'> {
  const { summary, items } = unchecked<SentReport>(body)
  return isObject(summary) && items === undefined
}

function readReport(body: unknown): BulkReport | undefined {
  const { summary, items } = unchecked<SentReport>(body)
  const isList = isObject(summary) && Array.isArray(items)
    && items.every((item) => typeof unchecked<BulkItem>(item).index === 'number')
  return isList ? body as BulkReport : undefined
}

/**
 * Returns the indexes of the items that a report does not name. A report that lists only failures
 * is about the first `total` items.
 */
function openItems(report: BulkReport | undefined, count: number): number[] {
  const { summary: { total }, items } = report ?? { summary: { total: 0 }, items: [] }
  const listed = new Set(items.map(({ index }) => index))
  const isComplete = items.length >= total
  return Array.from({ length: count }, (_, index) => index)
    .filter((index) => !listed.has(index) && (isComplete || index >= total))
}

/** Returns the text before and after the array in the body. */
function textAround(items: string): [before: string, after: string] {
  const names = items.split('/').slice(1)
  const open = names.map((name) => (
    `{${JSON.stringify(name.replaceAll('~1', '/').replaceAll('~0', '~'))}:`
  ))
  return [open.join(''), '}'.repeat(names.length)]
}
