import { SecondTexts } from '../../runtime/text.js'

const LAST_SECOND = 253_402_300_799
const httpDates = new SecondTexts((ms) => new Date(ms).toUTCString())

/**
 * Formats a time as an HTTP date (RFC 9110 section 5.6.7). Times outside the years 1970 to 9999
 * become the nearest valid one.
 * @throws {RangeError} `ms` is NaN.
 */
export function httpDate(ms: number): string {
  const second = Math.min(Math.max(Math.floor(ms / 1000), 0), LAST_SECOND)
  if (!Number.isNaN(second)) return httpDates.of(second)
  throw new RangeError('httpDate: the time must be a number of milliseconds, not NaN')
}

const MONTHS = ['Jan', 'Feb', 'Mar', 'Apr', 'May', 'Jun', 'Jul', 'Aug', 'Sep', 'Oct', 'Nov', 'Dec']
const MONTH = `(?<month>${MONTHS.join('|')})`
const DAY = '(?:Mon|Tue|Wed|Thu|Fri|Sat|Sun)'
const LONG_DAY = '(?:Mon|Tues|Wednes|Thurs|Fri|Satur|Sun)day'
const TIME = '(?<hour>\\d\\d):(?<minute>\\d\\d):(?<second>\\d\\d)'
/** IMF-fixdate, asctime and RFC 850. */
const HTTP_DATES = [
  `${DAY}, (?<day>\\d\\d) ${MONTH} (?<year>\\d{4}) ${TIME} GMT`,
  `${DAY} ${MONTH} (?<day>\\d\\d| \\d) ${TIME} (?<year>\\d{4})`,
  `${LONG_DAY}, (?<day>\\d\\d)-${MONTH}-(?<shortYear>\\d\\d) ${TIME} GMT`,
].map((form) => new RegExp(`^${form}$`))
const LONGEST = 'Wednesday, 06-Nov-94 08:49:37 GMT'.length

type Parts = Readonly<Record<string, string | undefined>>

/**
 * Reads an HTTP date in any of the three forms (RFC 9110 section 5.6.7) into milliseconds since
 * 1970. A two-digit year more than 50 years ahead is in the last century.
 */
export function parseHttpDate(text: string): number | undefined {
  if (text.length > LONGEST) return undefined
  for (const form of HTTP_DATES) {
    const { groups } = form.exec(text) ?? {}
    if (groups === undefined) continue
    const { year, shortYear, month = '' } = groups as Parts
    const at = (year: number) => instant(year, MONTHS.indexOf(month), groups)
    if (shortYear === undefined) return at(Number(year))
    const now = new Date()
    const thisYear = now.getUTCFullYear()
    const fullYear = thisYear - (thisYear % 100) + Number(shortYear)
    const ms = at(fullYear)
    const isPast = ms !== undefined && ms > now.setUTCFullYear(thisYear + 50)
    return isPast ? at(fullYear - 100) : ms
  }
  return undefined
}

function instant(year: number, month: number, parts: Parts): number | undefined {
  const [day = NaN, hour = NaN, minute = NaN, second = NaN] =
    [parts['day'], parts['hour'], parts['minute'], parts['second']].map(Number)
  if (hour > 23 || minute > 59 || second > 60) return undefined
  const date = new Date(0)
  date.setUTCFullYear(year, month, day)
  if (date.getUTCMonth() !== month || date.getUTCDate() !== day) return undefined
  // 60 is a leap second: it counts as the next one.
  return date.setUTCHours(hour, minute, second)
}

const TIMESTAMP = new RegExp([
  /^(?<year>\d{4})-(?<month>\d\d)-(?<day>\d\d)[Tt]/,
  /(?<hour>\d\d):(?<minute>\d\d):(?<second>\d\d)(?:\.(?<fraction>\d{1,9}))?/,
  /(?:[Zz]|(?<sign>[+-])(?<zoneHour>\d\d):(?<zoneMinute>\d\d))$/,
].map(({ source }) => source).join(''))

/** Parses a timestamp of RFC 3339 (section 5.6) into milliseconds since 1970. */
export function parseTimestamp(text: string): number | undefined {
  const { groups } = TIMESTAMP.exec(text) ?? {}
  if (groups === undefined) return undefined
  const { year, month, fraction = '', sign, zoneHour = 0, zoneMinute = 0 } = groups as Parts
  if (Number(zoneHour) > 23 || Number(zoneMinute) > 59) return undefined
  const ms = instant(Number(year), Number(month) - 1, groups)
  if (ms === undefined) return undefined
  const offset = (Number(zoneHour) * 60 + Number(zoneMinute)) * (sign === '-' ? -60_000 : 60_000)
  return ms + Number(fraction.padEnd(3, '0').slice(0, 3)) - offset
}
