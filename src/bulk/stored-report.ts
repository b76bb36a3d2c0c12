import type { Blobs } from '../stores/blobs.js'
import { blobBytes, deleteBlobs } from '../stores/blob-rules.js'
import type { Retry } from '../stores/calls.js'
import type { EndedTask, ExternalResource } from '../tasks/definition/external-resource.js'
import { textOf, type KeptParts } from '../tasks/definition/kept-parts.js'
import type { Spool } from '../tasks/definition/spool.js'
import type { BulkPosition, ReportText } from './bulk-position.js'
import type { BulkItem, ReportSink } from './report.js'

/** Number of last runs of a task among which reports are searched, or deleted. */
export const MAX_RUNS = 10

/**
 * Returns the key of the blob with the items of a task: all items, or the failed ones. Each run has
 * keys of its own, so a late run cannot replace the report of a newer one.
 *
 * @param run - number of the run
 */
export function reportKey(taskId: string, run: number, only: 'all' | 'failed'): string {
  return `bulk-report/${taskId}/${run}/${only}`
}

/** Returns the keys of the reports that the last runs of a task may have left. */
function reportKeys({ id, attempt }: Pick<EndedTask, 'id' | 'attempt'>): readonly string[] {
  const runs = Array.from({ length: MAX_RUNS }, (_, back) => attempt - back).filter((run) => run > 0)
  return runs.flatMap((run) => [reportKey(id, run, 'all'), reportKey(id, run, 'failed')])
}

/** Returns what a task keeps beside its body: its reports. */
export function keepingReports(
  { blobs, external }: Pick<Spool, 'blobs' | 'external'>,
): Required<Pick<ExternalResource<never>, 'remove' | 'bytes'>> {
  return {
    async remove(blob, task) {
      await external.release(blob)
      await deleteBlobs(blobs, reportKeys(task))
    },
    async bytes(blob, task) {
      const sizes = await blobBytes(blobs, reportKeys(task))
      return sizes.reduce((total, size) => total + size, await external.bytes(blob, task))
    },
  }
}

/** Text that is kept in memory until it becomes a part, in UTF-16 units. */
const PIECE_UNITS = 65_536
/** Maximum size of the text in a checkpoint, as JSON in bytes. More becomes a part. */
const MAX_REST_BYTES = 32_768
const FAILED_ITEM = /^\{"index":\d+,"status":[45]/

/** Settings of a stored report. */
export interface StoredReportOptions {
  readonly blobs: Blobs
  readonly taskId: string
  /** Number of the run. */
  readonly run: number
  readonly retentionMs: number
  readonly maxInlineBytes: number
  /** Stores the report while the task runs. */
  readonly parts: KeptParts
  /** Repeats a write while the blobs are unavailable. */
  readonly retry: Retry
  readonly reportError: (error: unknown) => void
}

/**
 * Stores the items of a task as NDJSON: in parts while the task runs, and in two blobs at its end.
 * Keeps a short list in memory, too.
 */
export class StoredReport implements ReportSink {
  readonly separator = '\n'
  /** NDJSON of all items; `undefined` if it is longer than `maxInlineBytes`. */
  private inline: string | undefined = ''
  /** NDJSON that is not in a part yet. */
  private text = ''
  /** A part could not be written. */
  private lost = false

  constructor(private readonly options: StoredReportOptions) {}

  /** Continues the report of an earlier run. */
  async continueFrom({ report: { parts, rest }, length }: BulkPosition): Promise<void> {
    const { options } = this
    this.lost = parts === null
    this.text = rest
    options.parts.list = parts ?? []
    this.inline = undefined
    if (this.lost || length > options.maxInlineBytes) return
    try {
      this.inline = await textOf(this.all())
    } catch (error) {
      this.lose(error)
    }
  }

  add(items: string): void {
    const lines = `${items}\n`
    if (!this.lost) this.text += lines
    if (this.inline === undefined) return
    const fits = this.inline.length + lines.length <= this.options.maxInlineBytes
    this.inline = fits ? this.inline + lines : undefined
  }

  restart(): void {
    this.inline = ''
    this.text = ''
    this.options.parts.list = []
  }

  flush(): Promise<void> | undefined {
    return this.text.length < PIECE_UNITS ? undefined : this.write()
  }

  /** Writes a part if the text is too large for a checkpoint. */
  async shorten(): Promise<void> {
    const { text } = this
    if (text.length <= MAX_REST_BYTES / 4) return
    if (Buffer.byteLength(JSON.stringify(text)) > MAX_REST_BYTES) await this.write()
  }

  /** Returns the report so far, followed by `items`. */
  textWith(items: string): ReportText {
    const { lost, text, options: { parts } } = this
    if (lost) return { parts: null, rest: '' }
    return { parts: parts.list, rest: items === '' ? text : `${text}${items}\n` }
  }

  /**
   * Completes the report. Resolves to true if clients can read its items.
   *
   * @param isWhole - false if the run has failed. It then does not wait for the blobs, because the
   * next attempt writes the report again.
   */
  async end(isWhole: boolean): Promise<boolean> {
    const { blobs, taskId, run, retentionMs: ttlMs, parts } = this.options
    const retry: Retry = isWhole ? this.options.retry : (work) => work()
    if (this.lost || (this.text === '' && parts.list.length === 0)) return false
    try {
      await retry(() => blobs.put(reportKey(taskId, run, 'all'), this.all(), { ttlMs }))
      await retry(() => blobs.put(reportKey(taskId, run, 'failed'), this.failedLines(), { ttlMs }))
    } catch (error) {
      this.lose(error)
      return false
    }
    await this.deleteEarlier()
    return true
  }

  /** All items; `undefined` if there are too many for a status body. */
  get items(): BulkItem[] | undefined {
    const { inline } = this
    if (inline === undefined) return undefined
    return JSON.parse(`[${inline.slice(0, -1).replaceAll('\n', ',')}]`) as BulkItem[]
  }

  /** Writes the text as a part. If that fails, the task continues without a stored report. */
  private async write(): Promise<void> {
    try {
      await this.options.parts.add(this.text)
      this.text = ''
    } catch (error) {
      this.lose(error)
    }
  }

  /**
   * Deletes the reports of earlier runs, so that a client that cancels and retries a task does not
   * fill the blobs. Never rejects, because they expire.
   */
  private async deleteEarlier(): Promise<void> {
    const { blobs, taskId: id, run } = this.options
    await deleteBlobs(blobs, reportKeys({ id, attempt: run - 1 }))
  }

  private lose(error: unknown): void {
    this.lost = true
    this.text = ''
    this.options.reportError(error)
  }

  private async* all(): AsyncGenerator<Uint8Array, void, undefined> {
    yield* this.options.parts.read()
    if (this.text !== '') yield Buffer.from(this.text)
  }

  private async* failedLines(): AsyncGenerator<Uint8Array, void, undefined> {
    const { blobs, taskId, run } = this.options
    const pieces = await blobs.open(reportKey(taskId, run, 'all'))
    if (pieces === undefined) return
    const decoder = new TextDecoder()
    let rest = ''
    for await (const piece of pieces) {
      const lines = (rest + decoder.decode(piece, { stream: true })).split('\n')
      rest = lines.pop() ?? ''
      const failed = lines.filter((line) => FAILED_ITEM.test(line))
      if (failed.length > 0) yield Buffer.from(`${failed.join('\n')}\n`)
    }
  }
}
