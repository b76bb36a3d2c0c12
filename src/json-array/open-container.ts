/** An object or array that contains the array to read, and is not closed yet. */
export class OpenContainer {
  /** Opening bracket. */
  readonly open: number
  /** Closing bracket. */
  readonly close: number

  /**
   * @param commas - number of commas that were read
   * @param found - the member or element that leads to the array was read
   */
  constructor(readonly isObject: boolean, public commas = 0, public found = false) {
    this.open = isObject ? 0x7b : 0x5b
    this.close = isObject ? 0x7d : 0x5d
  }

  /** Returns a text that leads a JSON parser from the start of the container to a value in it. */
  leadToValue(): string {
    if (this.isObject) return '{"":'
    return this.commas > 0 ? '[0,' : '['
  }

  /** Returns a text that leads to the next member or element. */
  leadToChild(): string {
    if (!this.isObject) return this.leadToValue()
    return this.commas > 0 ? '{"":0,' : '{'
  }

  /** Returns a text that leads to the comma or bracket after a member or element. */
  leadAfterChild(): string {
    return this.isObject ? '{"":{}' : '[{}'
  }
}
