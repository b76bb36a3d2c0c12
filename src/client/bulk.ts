import { MergedReport, readReport, type BulkReport } from './bulk-report.js'
import { ClientError, isClientError } from './errors.js'
import { isObject } from './json-object.js'
import { checkNames } from './option-names.js'
import type { Settings } from './options.js'
import { start as submit, WORK, type SubmitOptions } from './submit.js'
import { newKey } from './transport.js'

/** Methods with which a request without items changes nothing. A PUT may delete what is there. */
const ASKS_HARMLESSLY = new Set(['POST', 'PATCH'])

/** Options of `bulk`. */
export interface BulkOptions extends Omit<SubmitOptions, 'wait'> {
  /**
   * HTTP method. Updates use PATCH.
   * @default POST
   */
  readonly method?: string
  /**
   * JSON pointer (RFC 6901) to the array in the body: `/updates` for `{ updates: […] }` (SPEC
   * 2.3).
   * @default the body is the array
   */
  readonly items?: string
  /**
   * Maximum number of items in one request. After a 413 the client sends fewer: those without an
   * outcome.
   * @default 1000
   */
  readonly maxItems?: number
  /**
   * Maximum size of one request body in bytes.
   * @default 1 MiB
   */
  readonly maxBodyBytes?: number
  /**
   * Requests at a time. With more than one, items may be processed in another order.
   * @default 1
   */
  readonly concurrency?: number
  /**
   * Processes each request as a task.
   * @default false
   */
  readonly background?: boolean
  /** Called after each request. */
  readonly onProgress?: (progress: { readonly done: number; readonly total: number }) => void
}

const KNOWN = {
  ...WORK, method: 0, items: 0, maxItems: 0, maxBodyBytes: 0, concurrency: 0, onProgress: 0,
} satisfies Record<keyof BulkOptions, 0>
/** RFC 6901 section 3. */
const POINTER = /^(?:\/(?:[^~/]|~[01])*)*$/
const BULK_FAILED = Symbol.for('longhaul.BulkFailedError')

/**
 * A bulk operation of which a request was not sent, or was refused as a whole. Test for it with
 * `isBulkFailed`.
 */
export class BulkFailedError extends Error {
  override readonly name = 'BulkFailedError'
  readonly [BULK_FAILED] = true
  /** A `ClientError`, a `TaskFailedError`, or the reason of the signal. */
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
 * Returns whether `error` is a `BulkFailedError`, of any copy of this package.
 *
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

/** Consecutive items as JSON texts: the content of one request. */
interface Batch {
  readonly start: number
  readonly texts: readonly string[]
}

const encoder = /* @__PURE__ */ new TextEncoder()

/** Sends items in as many requests as necessary and merges their reports. */
export async function bulk(
  settings: Settings, path: string, items: readonly unknown[], options: BulkOptions = {},
): Promise<BulkReport> {
  checkNames('bulk', options, KNOWN)
  const { maxItems = 1000, maxBodyBytes = 1_048_576, concurrency = 1, onProgress } = options
  for (const [name, value] of Object.entries({ maxItems, maxBodyBytes, concurrency })) {
    if (Number.isInteger(value) && value >= 1) continue
    throw new TypeError(`bulk: ${name} must be a whole number from 1`)
  }
  if (!POINTER.test(options.items ?? '')) {
    throw new TypeError("bulk: items must be a JSON pointer such as '/updates'")
  }
  const run = new Run(settings, path, items, { ...options, maxItems, maxBodyBytes })
  const work = async (): Promise<void> => {
    for (let batch = run.next(); batch; batch = run.next()) {
      const done = await run.send(batch)
      if (done > 0) onProgress?.({ done: run.done, total: items.length })
    }
  }
  await Promise.all(Array.from({ length: concurrency }, async () => {
    await work().catch((error: unknown) => { run.fail(error) })
  }))
  if (run.failure) throw new BulkFailedError(run.failure.error, run.merged.report)
  return run.merged.report
}

class Run {
  readonly merged: MergedReport
  /** The body before and after the array. */
  private readonly around: readonly [before: string, after: string]
  done = 0
  failure: { readonly error: unknown } | undefined
  private nextIndex = 0
  /** Parts of batches that were too large, the next one last. */
  private readonly parts: Batch[] = []
  private maxItems: number
  private readonly key: string | false

  constructor(
    private readonly settings: Settings,
    private readonly path: string,
    private readonly items: readonly unknown[],
    private readonly options: BulkOptions & Readonly<{ maxItems: number; maxBodyBytes: number }>,
  ) {
    this.maxItems = options.maxItems
    this.merged = new MergedReport(options.items ?? '')
    this.around = textAround(options.items ?? '')
    this.key = options.idempotencyKey ?? newKey()
  }

  fail(error: unknown): void {
    this.failure ??= { error }
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

  /** Sends a batch. Returns how many of its items have an outcome now. */
  async send(batch: Batch): Promise<number> {
    const { start, texts } = batch
    const { report, error } = await this.request(batch)
    if (report) this.merged.add(start, report)
    if (error === undefined) return this.finish(texts.length)
    const open = report ? openItems(report, texts.length) : texts.map((_, index) => index)
    const answered = texts.length - open.length
    if (open.length === 0) return this.finish(answered)
    if (error.status !== 413) throw error
    if (open.length === 1 && texts.length === 1) {
      const { code, message } = error
      this.merged.add(start, {
        summary: { total: 1, succeeded: 0, failed: 1 },
        items: [{ index: 0, status: 413, error: { code, message } }],
      })
      return this.finish(1)
    }
    this.divide(batch, open, answered || Math.ceil(texts.length / 2))
    return this.finish(answered)
  }

  private finish(count: number): number {
    this.done += count
    return count
  }

  /** Returns the report of a request, which may come with an error. Rejects if there is neither. */
  private async request(
    { start, texts }: Batch,
  ): Promise<{ readonly report?: BulkReport | undefined, readonly error?: ClientError }> {
    const { settings, path, key, options, around } = this
    const { method, signal, headers, statusPath, background = false } = options
    const body = around.join(`[${texts.join(',')}]`)
    let found: unknown
    try {
      const task = await submit<unknown>(settings, path, {
        body: () => body, background,
        // Half of a batch is another request, so it has another key.
        idempotencyKey: key === false ? false : `${key}-${start}-${texts.length}`,
        isOwnKey: options.idempotencyKey === undefined,
        // A PUT without items may delete all of them.
        question: method === undefined || ASKS_HARMLESSLY.has(method.toUpperCase()) ? { body: around.join('[]') } : 'none',
        ...method !== undefined && { method }, ...signal && { signal }, ...headers && { headers },
        ...statusPath !== undefined && { statusPath },
      })
      found = await task.result(signal && { signal })
    } catch (error) {
      const report = isClientError(error) ? readReport(error.body) : undefined
      if (!isClientError(error) || !(report || error.status === 413)) throw error
      return { report, error }
    }
    const report = readReport(found)
    if (report) return { report }
    const message = 'The answer is not the report of a bulk request.'
    throw new ClientError('bad_answer', message, { status: 200, body: found })
  }

  /** Divides the items without an outcome into smaller batches. */
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

/**
 * Returns the indexes of the items that a report does not answer. A report of failures only is
 * about the first `total` items, because a server processes them in order.
 */
function openItems({ summary: { total }, items }: BulkReport, count: number): number[] {
  const listed = new Set(items.map(({ index }) => index))
  const isComplete = items.length >= total
  return Array.from({ length: count }, (_, index) => index)
    .filter((index) => !listed.has(index) && (isComplete || index >= total))
}

/** Returns the JSON of the objects that lead to the array: the text before it and after it. */
function textAround(items: string): [before: string, after: string] {
  const names = items.split('/').slice(1)
  const open = names.map((name) => (
    `{${JSON.stringify(name.replaceAll('~1', '/').replaceAll('~0', '~'))}:`
  ))
  return [open.join(''), '}'.repeat(names.length)]
}
