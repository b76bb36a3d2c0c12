import { MergedReport, readReport, type BulkReport } from './bulk-report.js'
import { ClientError, isClientError } from './errors.js'
import { checkNames } from './option-names.js'
import type { Settings } from './options.js'
import { start as submit, WORK, type SubmitOptions } from './submit.js'
import { newKey } from './transport.js'

/** How many items are sent. */
export interface BulkOptions extends Omit<SubmitOptions, 'wait'> {
  /** Default POST; updates are a PATCH. */
  readonly method?: string
  /**
   * The member that the items are in: `updates` for `{ updates: […] }` (SPEC 2.3). Default: the
   * body is the array.
   */
  readonly member?: string
  /** The most items of one request. Default 1000; a server that answers 413 gets fewer. */
  readonly maxItems?: number
  /** The most bytes of one request. Default 1 MiB. */
  readonly maxBytes?: number
  /** Requests at a time. Default 1, which keeps the order of the items. */
  readonly concurrency?: number
  /** Has each request done by a task. Default false. */
  readonly background?: boolean
  /** Is called after each request. */
  readonly onProgress?: (progress: { readonly done: number; readonly total: number }) => void
}

const KNOWN = {
  ...WORK, method: 0, member: 0, maxItems: 0, maxBytes: 0, concurrency: 0, onProgress: 0,
} satisfies Record<keyof BulkOptions, 0>
const BULK_FAILED = Symbol.for('longhaul.BulkFailedError')

/**
 * A bulk request of which a part could not be sent, or was refused as a whole. Recognise it by
 * `isBulkFailed`.
 */
export class BulkFailedError extends Error {
  override readonly name = 'BulkFailedError'
  readonly [BULK_FAILED] = true
  /** Why it ended: a `ClientError`, a `TaskFailedError`, or the reason of the signal. */
  override readonly cause: unknown
  /** What became of the items before. What is not in it was not sent, or its outcome is unknown. */
  readonly report: BulkReport

  constructor(cause: unknown, report: BulkReport) {
    const why = cause instanceof Error ? cause.message : String(cause)
    super(`The bulk request ended after ${report.summary.total} items: ${why}`)
    this.cause = cause
    this.report = report
  }
}

/** Whether `error` is a `BulkFailedError` of any copy of this package. */
export function isBulkFailed(error: unknown): error is BulkFailedError {
  return typeof error === 'object' && error !== null && BULK_FAILED in error
}

/** Some items in a row, as JSON texts. */
interface Piece {
  readonly start: number
  readonly texts: readonly string[]
}

const encoder = /* @__PURE__ */ new TextEncoder()

/** Sends items in as many requests as it takes, and merges their reports. */
export async function bulk(settings: Settings, path: string, items: readonly unknown[], options: BulkOptions = {}): Promise<BulkReport> {
  checkNames('bulk', options, KNOWN)
  const { maxItems = 1000, maxBytes = 1_048_576, concurrency = 1, onProgress } = options
  for (const [name, value] of Object.entries({ maxItems, maxBytes, concurrency })) {
    if (!Number.isInteger(value) || value < 1) throw new TypeError(`bulk: ${name} must be a whole number from 1`)
  }
  const run = new Run(settings, path, items, { ...options, maxItems, maxBytes })
  const work = async (): Promise<void> => {
    for (let piece = run.next(); piece; piece = run.next()) {
      const done = await run.send(piece)
      if (done > 0) onProgress?.({ done: run.done, total: items.length })
    }
  }
  try {
    await Promise.all(Array.from({ length: concurrency }, async () => {
      await work().catch((error: unknown) => { run.fail(error) })
    }))
  } finally {
    run.stop()
  }
  if (run.failure) throw new BulkFailedError(run.failure.error, run.merged.report)
  return run.merged.report
}

class Run {
  readonly merged = new MergedReport()
  done = 0
  failure: { readonly error: unknown } | undefined
  private at = 0
  /** Pieces that were too large, cut in two. */
  private readonly again: Piece[] = []
  private maxItems: number
  private readonly key: string | false

  constructor(
    private readonly settings: Settings, private readonly path: string, private readonly items: readonly unknown[],
    private readonly options: BulkOptions & { readonly maxItems: number; readonly maxBytes: number },
  ) {
    this.maxItems = options.maxItems
    this.key = options.idempotencyKey ?? newKey()
  }

  fail(error: unknown): void {
    this.failure ??= { error }
  }

  stop(): void {
    this.again.length = 0
  }

  /** The next piece; `undefined` when there is none, or all is to end. */
  next(): Piece | undefined {
    if (this.failure) return undefined
    const again = this.again.pop()
    if (again) return again
    const { items, at: start, options: { maxBytes } } = this
    const texts: string[] = []
    // The brackets and, at most, the name of the member.
    let bytes = 16 + (this.options.member?.length ?? 0) * 6
    while (this.at < items.length && texts.length < this.maxItems) {
      const text = JSON.stringify(items[this.at]) as string | undefined ?? 'null'
      bytes += lengthOf(text) + 1
      if (bytes > maxBytes && texts.length > 0) break
      texts.push(text)
      this.at++
    }
    return texts.length === 0 ? undefined : { start, texts }
  }

  /** Sends a piece; resolves with how many items are done by it. */
  async send(piece: Piece): Promise<number> {
    const { start, texts } = piece
    try {
      const report = await this.request(piece)
      this.merged.add(start, report)
    } catch (error) {
      if (!isClientError(error) || error.status !== 413) throw error
      if (texts.length > 1) {
        this.split(piece)
        return 0
      }
      const { code, message } = error
      this.merged.add(start, { summary: { total: 1, succeeded: 0, failed: 1 }, items: [{ index: 0, status: 413, error: { code, message } }] })
    }
    this.done += texts.length
    return texts.length
  }

  private async request({ start, texts }: Piece): Promise<BulkReport> {
    const { settings, path, key, options: { member, method, signal, headers, statusPath, background = false } } = this
    const list = `[${texts.join(',')}]`
    const body = member === undefined ? list : `{${JSON.stringify(member)}:${list}}`
    let found: unknown
    try {
      const task = await submit<unknown>(settings, path, {
        body: () => body, background,
        // A piece that was cut in two is another request.
        idempotencyKey: key === false ? false : `${key}-${start}-${texts.length}`,
        ...method !== undefined && { method }, ...signal && { signal }, ...headers && { headers }, ...statusPath !== undefined && { statusPath },
      })
      found = await task.result(signal && { signal })
    } catch (error) {
      // Refused, and yet each item has its own reason.
      found = isClientError(error) && error.status !== 413 ? error.body : undefined
      if (!readReport(found)) throw error
    }
    const report = readReport(found)
    if (!report) throw new ClientError('bad_answer', 'The answer is not the report of a bulk request.', { status: 200, body: found })
    return report
  }

  private split({ start, texts }: Piece): void {
    const half = Math.ceil(texts.length / 2)
    this.maxItems = Math.min(this.maxItems, half)
    this.again.push({ start: start + half, texts: texts.slice(half) }, { start, texts: texts.slice(0, half) })
  }
}

/**
 * In UTF-8. A UTF-16 unit takes at most three bytes, so encoding all of a long text is seldom
 * needed, but it is exact.
 */
function lengthOf(text: string): number {
  return encoder.encode(text).length
}
