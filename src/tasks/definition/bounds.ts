import { checkNames, type Known } from '../../runtime/option-names.js'

/** Range of a number. `or-infinity`: a whole number, or `Infinity` for no limit. */
export type Bounds = readonly [min: number, max: number, whole?: boolean | 'or-infinity']

/** 100 years: what is longer makes no date. */
export const LONGEST_MS = 3_155_760_000_000
/** The longest that a timer of Node takes, in milliseconds. */
export const MAX_TIMER = 2 ** 31 - 1
/** Milliseconds that a timer takes. */
export const TIMER: Bounds = [1, MAX_TIMER]
export const COUNT: Bounds = [1, Infinity, true]
export const LIMIT: Bounds = [1, Infinity, 'or-infinity']
export const KEPT: Bounds = [1000, LONGEST_MS]
export const PAUSE: Bounds = [0, LONGEST_MS]
export const SIZE: Bounds = [0, Infinity]

/**
 * `checkNames`, and what is given of those that are known with `Bounds`, and not with 0, has to be
 * a number within. Throws a `TypeError`.
 */
export function checkBounds(where: string, options: object, known: Known): void {
  checkNames(where, options, known)
  for (const [name, bounds] of Object.entries(known)) {
    const value = (options as Known)[name]
    if (value === undefined || !bounds) continue
    const [min, max, whole] = bounds as Bounds
    const isWhole = !whole || Number.isInteger(value) || (whole === 'or-infinity' && value === Infinity)
    if (!(typeof value === 'number' && value >= min && value <= max && isWhole)) {
      throw new TypeError(`${where}: ${name} must be a ${whole ? 'whole ' : ''}number from ${min}${max < Infinity ? ` to ${max}` : ''}`)
    }
  }
}
