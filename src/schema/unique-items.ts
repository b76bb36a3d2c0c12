import type { Ajv2020, FuncKeywordDefinition } from 'ajv/dist/2020.js'

/** Replaces ajv's `uniqueItems`, which takes quadratic time. Returns a function that ends a validation. */
export function linearUniqueItems(ajv: Ajv2020): () => void {
  // For a whole validation, so that nested arrays are not read again at each level.
  let values: EqualValues | undefined
  const validate: NonNullable<FuncKeywordDefinition['validate']> = (
    unique: boolean, items: readonly unknown[],
  ): boolean => {
    delete validate.errors
    if (!unique || items.length < 2) return true
    values ??= new EqualValues()
    const seen = new Map<number, number>()
    for (const [i, item] of items.entries()) {
      const number = values.numberOf(item)
      const j = seen.get(number)
      if (j !== undefined) {
        const message = `must NOT have duplicate items (items ## ${j} and ${i} are identical)`
        validate.errors = [{ keyword: 'uniqueItems', params: { i, j }, message }]
        return false
      }
      seen.set(number, i)
    }
    return true
  }
  ajv.removeKeyword('uniqueItems')
  // Before the keywords that check the items, because with `useDefaults` these change the items.
  const keyword: FuncKeywordDefinition = {
    keyword: 'uniqueItems', type: 'array', schemaType: 'boolean', before: 'prefixItems', validate,
  }
  ajv.addKeyword(keyword)
  return () => {
    values = undefined
    delete validate.errors
  }
}

/** Gives equal JSON values the same number (JSON Schema 2020-12 section 4.2.2). */
export class EqualValues {
  readonly #byForm = new Map<string, number>()
  readonly #byObject = new Map<object, number>()

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

  /** An object with `toJSON`, such as a date, counts as its result. */
  #formOf(value: object): string {
    const { toJSON } = value as { readonly toJSON?: unknown }
    if (typeof toJSON === 'function') return `#${this.numberOf(toJSON.call(value))}`
    const properties = Object.entries(value as Readonly<Record<string, unknown>>)
      .sort(([a], [b]) => (a < b ? -1 : 1))
      .map(([name, property]) => `${JSON.stringify(name)}:${this.numberOf(property)}`)
    return `{${properties.join()}`
  }

  #number(form: string): number {
    const known = this.#byForm.get(form)
    if (known !== undefined) return known
    const { size } = this.#byForm
    this.#byForm.set(form, size)
    return size
  }
}
