/**
 * `value` when it is a whole number in the range; else a TypeError that names the option and says
 * what would do.
 */
export function wholeNumber(option: string, value: number, min: number, max: number): number {
  if (Number.isSafeInteger(value) && value >= min && value <= max) return value
  throw new TypeError(`${option} must be a whole number from ${min} to ${max}, not ${String(value)}`)
}
