/** The last second of the year 9999. */
const LAST = 253_402_300_799_000

let lastSecond = Number.NaN
let lastText = ''

/**
 * A time as an HTTP date, IMF-fixdate (RFC 9110 section 5.6.7), cut to whole seconds. The last one is
 * remembered. Times outside the years 1970 to 9999 become the nearest that can be written.
 * @param ms milliseconds since 1970
 * @throws {RangeError} for NaN
 */
export function httpDate(ms: number): string {
  const second = Math.floor(ms / 1000)
  if (second === lastSecond) return lastText
  if (Number.isNaN(second)) throw new RangeError('httpDate: the time must be a number of milliseconds, not NaN')
  lastText = new Date(Math.min(Math.max(second * 1000, 0), LAST)).toUTCString()
  lastSecond = second
  return lastText
}
