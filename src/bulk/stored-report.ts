import type { Blobs } from '../stores/blobs.js'
import { BlobWriter } from './blob-writer.js'
import type { BulkItem, ReportSink } from './report.js'

/** Returns the key of the blob with the items of a task: all items, or the failed ones. */
export function reportKey(taskId: string, only: 'all' | 'failed'): string {
  return `bulk-report/${taskId}/${only}`
}

const PIECE_UNITS = 65_536
const FAILED_ITEM = /^\{"index":\d+,"status":[45]/

/** Settings of a stored report. */
export interface StoredReportOptions {
  readonly blobs: Blobs
  readonly taskId: string
  readonly retentionMs: number
  readonly maxInlineBytes: number
  readonly reportError: (error: unknown) => void
}

/** Stores the items of a task as NDJSON in blobs. Keeps a short list in memory, too. */
export class StoredReport implements ReportSink {
  readonly separator = '\n'
  /** NDJSON of all items; `undefined` if it is longer than `maxInlineBytes`. */
  private inline: string | undefined = ''
  /** NDJSON that is not written to the blob yet. */
  private text = ''
  private writer: BlobWriter | undefined
  /** The blob could not be written. */
  private failed = false

  constructor(private readonly options: StoredReportOptions) {}

  add(items: string): void {
    const lines = `${items}\n`
    this.text += lines
    if (this.inline === undefined) return
    const fits = this.inline.length + lines.length <= this.options.maxInlineBytes
    this.inline = fits ? this.inline + lines : undefined
  }

  restart(): void {
    this.inline = ''
    this.text = ''
    this.writer?.discard()
    this.writer = undefined
  }

  flush(): Promise<void> | undefined {
    return this.text.length < PIECE_UNITS ? undefined : this.write()
  }

  /** Completes the report. Resolves to true if clients can read its items. */
  async end(): Promise<boolean> {
    await this.write()
    if (this.failed || this.writer === undefined) return false
    const { blobs, taskId, retentionMs, reportError } = this.options
    try {
      await this.writer.end()
      await blobs.put(reportKey(taskId, 'failed'), this.failedLines(), { ttlMs: retentionMs })
      return true
    } catch (error) {
      reportError(error)
      return false
    }
  }

  /** All items; `undefined` if there are too many for a status body. */
  get items(): BulkItem[] | undefined {
    const { inline } = this
    if (inline === undefined) return undefined
    return JSON.parse(`[${inline.slice(0, -1).replaceAll('\n', ',')}]`) as BulkItem[]
  }

  /** Writes the text to the blob. If that fails, the task continues without a stored report. */
  private async write(): Promise<void> {
    const { text, options: { blobs, taskId, retentionMs, reportError } } = this
    this.text = ''
    if (this.failed || text === '') return
    try {
      this.writer ??= new BlobWriter(blobs, reportKey(taskId, 'all'), retentionMs)
      await this.writer.write(Buffer.from(text))
    } catch (error) {
      this.failed = true
      reportError(error)
    }
  }

  private async* failedLines(): AsyncGenerator<Uint8Array, void, undefined> {
    const { blobs, taskId } = this.options
    const pieces = await blobs.open(reportKey(taskId, 'all'))
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
