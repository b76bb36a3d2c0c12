/** How records stand in a body. */
export type Layout = 'lines' | 'array'

/** A text is handed over once it has this many UTF-16 units. */
const FULL_UNITS = 65_536

/** Gathers records as text, either one a line or as one JSON array. */
export class LineText<T> {
  private text = ''
  private begun = false

  constructor(private readonly stringify: (record: T) => string | undefined, private readonly layout: Layout) {}

  get full(): boolean {
    return this.text.length >= FULL_UNITS
  }

  get empty(): boolean {
    return this.text === ''
  }

  /** Throws a `TypeError` for what is no object (SPEC 4.9), and whatever the stringifier throws. */
  add(record: T): void {
    if (typeof record !== 'object' || record === null) throw new TypeError(`A record must be an object, not ${record === null ? 'null' : typeof record}`)
    const line = this.stringify(record)
    if (line === undefined) throw new TypeError('A record must be an object that JSON can write')
    if (this.layout === 'lines') this.text += `${line}\n`
    else {
      this.text += this.begun ? `,\n${line}` : `[${line}`
      this.begun = true
    }
  }

  /** What was gathered, which begins anew. */
  take(): Buffer {
    const bytes = Buffer.from(this.text)
    this.text = ''
    return bytes
  }

  /** There are no more records. */
  end(): void {
    if (this.layout === 'array') this.text += this.begun ? ']\n' : '[]\n'
  }
}
