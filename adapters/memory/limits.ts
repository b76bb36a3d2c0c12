/**
 * Returns `value` if it is a whole number in the range.
 *
 * @throws {TypeError} The value is out of range. The message names the option and the range.
 */
export function wholeNumber(option: string, value: number, min: number, max: number): number {
  if (Number.isSafeInteger(value) && value >= min && value <= max) return value
  throw new TypeError(
    `${option} must be a whole number from ${min} to ${max}, not ${String(value)}`,
  )
}
