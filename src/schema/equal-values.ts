/**
 * Numbers JSON values: two values get the same number exactly if they are equal in JSON Schema
 * (2020-12 section 4.2.2). The order of members does not matter, and 1 equals 1.0. Each object is
 * read once, so the work is linear in the size of the values.
 */
export class EqualValues {
  readonly #byForm = new Map<string, number>()
  readonly #byObject = new Map<object, number>()

  /**
   * Returns the number of a value.
   *
   * @throws {RangeError} The value is nested deeper than the stack.
   */
  numberOf(value: unknown): number {
    if (typeof value === 'string') return this.#number(`"${value}`)
    if (typeof value !== 'object' || value === null) return this.#number(String(value))
    const known = this.#byObject.get(value)
    if (known !== undefined) return known
    const form = Array.isArray(value)
      ? `[${value.map((item) => this.numberOf(item)).join()}`
      : this.#formOf(value)
    const number = this.#number(form)
    this.#byObject.set(value, number)
    return number
  }

  /** Returns the members by name. An object with `toJSON`, such as a date, counts as its result. */
  #formOf(value: object): string {
    const { toJSON } = value as { readonly toJSON?: unknown }
    if (typeof toJSON === 'function') return `#${this.numberOf(toJSON.call(value))}`
    const members = Object.entries(value as Readonly<Record<string, unknown>>)
      .sort(([a], [b]) => (a < b ? -1 : 1))
      .map(([name, member]) => `${JSON.stringify(name)}:${this.numberOf(member)}`)
    return `{${members.join()}`
  }

  #number(form: string): number {
    const known = this.#byForm.get(form)
    if (known !== undefined) return known
    const { size } = this.#byForm
    this.#byForm.set(form, size)
    return size
  }
}
