import type { Ajv2020, FuncKeywordDefinition } from 'ajv/dist/2020.js'
import { EqualValues } from './equal-values.js'

/**
 * Replaces ajv's `uniqueItems`, which compares each object with each other one: 133 kB of small
 * objects took seconds. This one takes time in proportion to the size of the array. Errors have the
 * shape of ajv's.
 *
 * @returns ends one validation: forgets the values that it has compared
 */
export function linearUniqueItems(ajv: Ajv2020): () => void {
  // One for a whole validation, so that arrays in arrays are not looked at again for each level.
  let values: EqualValues | undefined
  const validate: NonNullable<FuncKeywordDefinition['validate']> = (unique: boolean, items: readonly unknown[]): boolean => {
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
  // Before the keywords that look into the items, as ajv's own: with `useDefaults` these change
  // them.
  const keyword: FuncKeywordDefinition = { keyword: 'uniqueItems', type: 'array', schemaType: 'boolean', before: 'prefixItems', validate }
  ajv.addKeyword(keyword)
  return () => {
    values = undefined
    delete validate.errors
  }
}
