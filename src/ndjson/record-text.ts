/** Layout of a body with records: one on each line, or one JSON array. */
export type Layout = 'lines' | 'array'

/** Number of UTF-16 units that fill a piece of the body. */
export const FULL_UNITS = 65_536

/** Serialises records, one on each line or as one JSON array. */
export class RecordText<T> {
  private text = ''
  private begun = false

  constructor(
    private readonly stringify: (record: T) => string | undefined, private readonly layout: Layout,
  ) {}

  /** Length of the text in UTF-16 units. */
  get units(): number {
    return this.text.length
  }

  /** The text is long enough for a piece of the body. */
  get full(): boolean {
    return this.text.length >= FULL_UNITS
  }

  /** @throws {TypeError} The record is not an object (SPEC 4.9), or JSON cannot represent it. */
  add(record: T): void {
    if (typeof record !== 'object' || record === null) {
      const type = record === null ? 'null' : typeof record
      throw new TypeError(`A record must be an object, not ${type}`)
    }
    const line = this.stringify(record)
    if (line === undefined) {
      throw new TypeError('A record must be an object that JSON can represent')
    }
    if (this.layout === 'lines') this.text += `${line}\n`
    else {
      this.text += this.begun ? `,\n${line}` : `[${line}`
      this.begun = true
    }
  }

  /** Returns the text as bytes, and begins a new one. */
  take(): Buffer {
    const bytes = Buffer.from(this.text)
    this.text = ''
    return bytes
  }

  /** Adds the end of the layout, after the last record. */
  end(): void {
    if (this.layout === 'array') this.text += this.begun ? ']\n' : '[]\n'
  }
}

/** Returns true for a list of records. A record itself is never an array. */
export function isList<T>(item: T | readonly T[]): item is readonly T[] {
  return Array.isArray(item)
}
