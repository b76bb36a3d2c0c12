import { httpError } from '../http/errors.js'
import { oneOf } from '../runtime/text.js'
import { deleteBlobs } from '../stores/blob-rules.js'
import type { Blobs } from '../stores/blobs.js'
import type { Retry } from '../stores/calls.js'
import {
  partKey, partKeys, readParts, withPart, type PartList,
} from '../stores/parts.js'
import type { RecordPosition, ReportText } from './position.js'
import type { ReportSink } from './report.js'
import type { ReportItem } from '../wire/report.js'

/**
 * Size of a text that becomes a part, in UTF-16 units. A shorter text stays in the checkpoint, as
 * up to 48 KiB of JSON. It is sent with each checkpoint, so above this size a part is cheaper.
 */
const PART_UNITS = 8192

/** Settings of `StoredReport`. */
export interface StoredReportSettings {
  readonly blobs: Blobs
  /** Key of the spooled body. The keys of the parts begin with it. */
  readonly blob: string
  /** Number of the run. It is the name of the writer of parts. */
  readonly run: number
  /** Lifetime of parts, in milliseconds. */
  readonly ttlMs: number
  /** Repeats a write while the blobs are unavailable. */
  readonly retry: Retry
  /** Maximum size of the items in the result of the task, in bytes. */
  readonly maxInlineBytes: number
  readonly onError: (error: unknown) => void
}

/**
 * Stores the items of a task's report as NDJSON, one item on each line: in parts beside the body of
 * the task, and the rest in its checkpoint. Keeps a list of at most `maxInlineBytes` in memory,
 * too.
 */
export class StoredReport implements ReportSink {
  readonly separator = '\n'
  list: PartList = []
  /** NDJSON of all items; `undefined` if it is longer than `maxInlineBytes`. */
  private inline: string | undefined = ''
  /** NDJSON that is not in a part yet. */
  private text = ''
  /** True if a part could not be written. */
  private lost = false
  /** Number of parts of this run. */
  private written = 0
  /** Keys of parts that were in the list. */
  private dropped: readonly string[] = []

  constructor(private readonly settings: StoredReportSettings) {}

  /** True if the parts are the whole report. */
  get isWhole(): boolean {
    return !this.lost && this.text === '' && this.list.length > 0
  }

  /** Continues the report of an earlier run. */
  async continueFrom({ report: { parts, rest }, length }: RecordPosition): Promise<void> {
    this.lost = parts === null
    this.text = rest
    this.list = parts ?? []
    this.inline = undefined
    if (this.lost || length > this.settings.maxInlineBytes) return
    const { blobs, blob } = this.settings
    const decoder = new TextDecoder()
    try {
      let text = ''
      for await (const piece of readParts(blobs, partKeys(blob, this.list), reportGone)) {
        text += decoder.decode(piece, { stream: true })
      }
      this.inline = text + rest
    } catch (error) {
      this.lose(error)
    }
  }

  add(items: string): void {
    const lines = `${items}\n`
    if (!this.lost) this.text += lines
    if (this.inline === undefined) return
    const fits = this.inline.length + lines.length <= this.settings.maxInlineBytes
    this.inline = fits ? this.inline + lines : undefined
  }

  restart(): void {
    this.inline = ''
    this.text = ''
    this.written = 0
    this.drop()
  }

  /** Stores the text as a part, unless it is short and `isEnd` is false. */
  async flush(isEnd = false, retry = this.settings.retry): Promise<void> {
    const { blobs, blob, run, ttlMs } = this.settings
    if (this.text.length < (isEnd ? 1 : PART_UNITS)) return
    const bytes = Buffer.from(this.text)
    try {
      await retry(() => blobs.put(partKey(blob, run, this.written), oneOf(bytes), { ttlMs }))
      this.list = withPart(this.list, run, this.written++, bytes.byteLength)
      this.text = ''
    } catch (error) {
      this.lose(error)
    }
  }

  /** Deletes the parts that are no longer in the list. Call it once the list is saved. */
  async clean(): Promise<void> {
    if (this.dropped.length === 0) return
    const { blobs, blob } = this.settings
    const kept = new Set(partKeys(blob, this.list))
    await deleteBlobs(blobs, this.dropped.filter((key) => !kept.has(key)))
    this.dropped = []
  }

  textWith(items: string): ReportText {
    const { lost, text, list } = this
    if (lost) return { parts: null, rest: '' }
    return { parts: list, rest: items === '' ? text : `${text}${items}\n` }
  }

  /** Returns all items; `undefined` if they are longer than `maxInlineBytes`. */
  items<I>(): I[] | undefined {
    const { inline } = this
    if (inline === undefined) return undefined
    return JSON.parse(`[${inline.slice(0, -1).replaceAll('\n', ',')}]`) as I[]
  }

  /** Yields the bytes of all items, as NDJSON. */
  async* read(): AsyncGenerator<Uint8Array, void, undefined> {
    const { blobs, blob } = this.settings
    yield* readParts(blobs, partKeys(blob, this.list), reportGone)
    yield Buffer.from(this.text)
  }

  /** Continues without the items, because the blobs have failed. */
  private lose(error: unknown): void {
    this.lost = true
    this.text = ''
    this.drop()
    this.settings.onError(error)
  }

  private drop(): void {
    this.dropped = [...this.dropped, ...partKeys(this.settings.blob, this.list)]
    this.list = []
  }
}

/** Yields the items of a report, or only the failed ones. */
export async function* itemsOf<I extends ReportItem>(
  report: Pick<StoredReport, 'read'>, onlyFailed: boolean,
): AsyncGenerator<I, void, undefined> {
  for await (const lines of linesOf(report.read())) {
    for (const line of lines) {
      const item = JSON.parse(line) as I
      if (!onlyFailed || item.status >= 400) yield item
    }
  }
}

/** Returns the first failed items. After `maxBytes` errors have their code only. */
export async function firstFailed<I extends ReportItem>(
  report: Pick<StoredReport, 'read'>,
  { count, maxBytes }: { readonly count: number, readonly maxBytes: number },
): Promise<readonly I[]> {
  const items: I[] = []
  let bytes = 0
  if (count === 0) return items
  for await (const item of itemsOf<I>(report, true)) {
    bytes += JSON.stringify(item).length
    const { error } = item
    items.push(bytes > maxBytes && error ? { ...item, error: { code: error.code } } : item)
    if (items.length === count) break
  }
  return items
}

/** Yields the lines that end in each piece. */
export async function* linesOf(
  source: AsyncIterable<Uint8Array>,
): AsyncGenerator<readonly string[], void, undefined> {
  const decoder = new TextDecoder()
  let rest = ''
  for await (const piece of source) {
    const lines = (rest + decoder.decode(piece, { stream: true })).split('\n')
    rest = lines.pop() ?? ''
    yield lines
  }
}

export function reportGone(): Error {
  return httpError('gone', { message: 'Part of the report is gone.' })
}
