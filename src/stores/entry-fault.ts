import { isName, isStorable, MAX_CALLER, NAME_RULE } from '../runtime/names.js'

/**
 * Returns the error of a key, value or caller that a store must reject: a key that is empty or too
 * long, and text that is not well-formed or has U+0000.
 *
 * @example
 * function check(key: string, value: string): void {
 *   const fault = entryFault(key, value)
 *   if (fault) throw fault
 * }
 */
export function entryFault(key: string, value = '', caller?: string): TypeError | undefined {
  if (!isName(key)) return new TypeError(`The key of an entry must be ${NAME_RULE}`)
  if (!isStorable(value)) {
    return new TypeError('The value of an entry must be a well-formed string without U+0000')
  }
  if (caller === undefined || isName(caller, MAX_CALLER)) return undefined
  return new TypeError(`The caller of an entry must be ${NAME_RULE}`)
}
