import { isJsonObject, isWholeNumber } from '../http/body/json.js'

/** Place in a body at which an element of the array begins. A later reader continues there. */
export interface ArrayPosition {
  /** Number of bytes of the body before the element. */
  readonly byte: number
  /** Index of the element. */
  readonly item: number
  /** State of `TextPosition`: offset, line and column, and 1 after a CR. */
  readonly text: readonly [offset: number, line: number, column: number, afterReturn: 0 | 1]
  /** State of each open container: 1 for an object, and the number of commas. Outermost first. */
  readonly opened: readonly (readonly [isObject: 0 | 1, commas: number])[]
}

/** Returns true if `value` has the form of a position. */
export function isArrayPosition(value: unknown): value is ArrayPosition {
  if (!isJsonObject(value)) return false
  const { byte, item, text, opened } = value
  return isNumbers([byte, item]) && isNumbers(text, 4)
    && Array.isArray(opened) && opened.every((each) => isNumbers(each, 2))
}

function isNumbers(values: unknown, length = 2): boolean {
  return Array.isArray(values) && values.length === length && values.every(isWholeNumber)
}
