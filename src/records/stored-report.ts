import { textOf, type KeptParts } from './kept-parts.js'
import type { RecordPosition, ReportText } from './position.js'
import type { ReportSink } from './report.js'

/**
 * Size of a text that becomes a part, in UTF-16 units. Less stays in the checkpoint, as up to 48 KiB
 * of JSON. It is sent with each checkpoint, so a part is cheaper from here on.
 */
const PART_UNITS = 8192

/**
 * Stores the items of a task's report as NDJSON, one item on each line: in parts beside the body of
 * the task, and the rest in its checkpoint. Keeps a short list in memory, too.
 */
export class StoredReport implements ReportSink {
  readonly separator = '\n'
  /** NDJSON of all items; `undefined` if it is longer than `maxInlineBytes`. */
  private inline: string | undefined = ''
  /** NDJSON that is not in a part yet. */
  private text = ''
  /** A part could not be written. */
  private lost = false

  constructor(
    private readonly parts: KeptParts, private readonly maxInlineBytes: number,
    private readonly onError: (error: unknown) => void,
  ) {}

  get isWhole(): boolean {
    return !this.lost && (this.text !== '' || this.parts.list.length > 0)
  }

  /** Continues the report of an earlier run. */
  async continueFrom({ report: { parts, rest }, length }: RecordPosition): Promise<void> {
    this.lost = parts === null
    this.text = rest
    this.parts.list = parts ?? []
    this.inline = undefined
    if (this.lost || length > this.maxInlineBytes) return
    try {
      this.inline = await textOf(this.bytes())
    } catch (error) {
      this.lose(error)
    }
  }

  add(items: string): void {
    const lines = `${items}\n`
    if (!this.lost) this.text += lines
    if (this.inline === undefined) return
    const fits = this.inline.length + lines.length <= this.maxInlineBytes
    this.inline = fits ? this.inline + lines : undefined
  }

  restart(): void {
    this.inline = ''
    this.text = ''
    this.parts.list = []
  }

  /** Stores the text as a part, unless it is short. */
  async flush(): Promise<void> {
    if (this.text.length < PART_UNITS) return
    try {
      await this.parts.add(this.text)
      this.text = ''
    } catch (error) {
      this.lose(error)
    }
  }

  textWith(items: string): ReportText {
    const { lost, text, parts } = this
    if (lost) return { parts: null, rest: '' }
    return { parts: parts.list, rest: items === '' ? text : `${text}${items}\n` }
  }

  /** Returns all items; `undefined` if they are longer than `maxInlineBytes`. */
  items<I>(): I[] | undefined {
    const { inline } = this
    if (inline === undefined) return undefined
    return JSON.parse(`[${inline.slice(0, -1).replaceAll('\n', ',')}]`) as I[]
  }

  /** Yields all items as NDJSON. */
  async* bytes(): AsyncGenerator<Uint8Array, void, undefined> {
    yield* this.parts.read()
    if (this.text !== '') yield Buffer.from(this.text)
  }

  /** Continues without the items, because the blobs have failed. */
  lose(error: unknown): void {
    this.lost = true
    this.text = ''
    this.onError(error)
  }
}
