/**
 * Numbers JSON values so that two values get the same number exactly if they are equal in JSON
 * Schema (2020-12 section 4.2.2): the order of members does not matter, and 1 is 1.0. Each value is
 * looked at once, however often it is asked for, so the whole work is in proportion to the size of
 * the values.
 */
export class EqualValues {
  readonly #byForm = new Map<string, number>()
  readonly #byObject = new Map<object, number>()

  /** @throws {RangeError} The value is nested deeper than the stack. */
  numberOf(value: unknown): number {
    if (typeof value === 'string') return this.#number(`"${value}`)
    if (typeof value !== 'object' || value === null) return this.#number(String(value))
    const known = this.#byObject.get(value)
    if (known !== undefined) return known
    const number = this.#number(Array.isArray(value) ? `[${value.map((item) => this.numberOf(item)).join()}` : this.#formOf(value))
    this.#byObject.set(value, number)
    return number
  }

  /**
   * The members by name. An object that says how it is written as JSON, such as a date, is what it
   * says.
   */
  #formOf(value: object): string {
    const { toJSON } = value as { readonly toJSON?: unknown }
    if (typeof toJSON === 'function') return `#${this.numberOf(toJSON.call(value))}`
    const members = Object.entries(value as Readonly<Record<string, unknown>>).sort(([a], [b]) => (a < b ? -1 : 1))
    return `{${members.map(([name, member]) => `${JSON.stringify(name)}:${this.numberOf(member)}`).join()}`
  }

  #number(form: string): number {
    const known = this.#byForm.get(form)
    if (known !== undefined) return known
    const { size } = this.#byForm
    this.#byForm.set(form, size)
    return size
  }
}
