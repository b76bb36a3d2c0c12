import type { Blobs } from '../stores/blobs.js'
import { BlobWriter } from './blob-writer.js'
import type { BulkItem, ReportSink } from './report.js'

/** Keys of the items of a task: all of them, and those that failed. */
export function reportKey(taskId: string, only: 'all' | 'failed'): string {
  return `bulk-report/${taskId}/${only}`
}

const PIECE = 65_536
const FAILED = /^\{"index":\d+,"status":[45]/

/** Keeps the items of a task as NDJSON in blobs, and the beginning of them at hand. */
export class TaskReport implements ReportSink {
  readonly separator = '\n'
  /** The first items, as long as they are not too many for a status body. */
  private inline: string | undefined = ''
  private text = ''
  private writer: BlobWriter | undefined
  private lost = false

  constructor(
    private readonly blobs: Blobs, private readonly taskId: string, private readonly keepMs: number, private readonly maxInlineBytes: number,
    private readonly tell: (error: unknown) => void,
  ) {}

  add(texts: string): void {
    const lines = `${texts}\n`
    this.text += lines
    if (this.inline === undefined) return
    this.inline = this.inline.length + lines.length <= this.maxInlineBytes ? this.inline + lines : undefined
  }

  restart(): void {
    this.inline = ''
    this.text = ''
    this.writer?.discard()
    this.writer = undefined
  }

  flush(): Promise<void> | undefined {
    return this.text.length < PIECE ? undefined : this.write()
  }

  /** Resolves to whether the items can be asked for. */
  async end(): Promise<boolean> {
    await this.write()
    if (this.lost || this.writer === undefined) return false
    try {
      await this.writer.end()
      await this.blobs.put(reportKey(this.taskId, 'failed'), this.failedLines(), { ttlMs: this.keepMs })
      return true
    } catch (error) {
      this.tell(error)
      return false
    }
  }

  /** All items, or `undefined` when they are too many for a status body. */
  get items(): BulkItem[] | undefined {
    const { inline } = this
    return inline === undefined ? undefined : JSON.parse(`[${inline.slice(0, -1).replaceAll('\n', ',')}]`) as BulkItem[]
  }

  /** A report that can't be kept stops nothing: the items are written all the same. */
  private async write(): Promise<void> {
    const { text } = this
    this.text = ''
    if (this.lost || text === '') return
    try {
      this.writer ??= new BlobWriter(this.blobs, reportKey(this.taskId, 'all'), this.keepMs)
      await this.writer.write(Buffer.from(text))
    } catch (error) {
      this.lost = true
      this.tell(error)
    }
  }

  private async* failedLines(): AsyncGenerator<Uint8Array, void, undefined> {
    const pieces = await this.blobs.open(reportKey(this.taskId, 'all'))
    if (pieces === undefined) return
    const decoder = new TextDecoder()
    let rest = ''
    for await (const piece of pieces) {
      const lines = (rest + decoder.decode(piece, { stream: true })).split('\n')
      rest = lines.pop() ?? ''
      const failed = lines.filter((line) => FAILED.test(line))
      if (failed.length > 0) yield Buffer.from(`${failed.join('\n')}\n`)
    }
  }
}
