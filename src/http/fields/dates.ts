import { SecondTexts } from '../../runtime/text.js'

const LAST_SECOND = 253_402_300_799
const httpDates = new SecondTexts((ms) => new Date(ms).toUTCString())

/**
 * Formats a time as an HTTP date, IMF-fixdate (RFC 9110 section 5.6.7), in whole seconds. Times
 * outside the years 1970 to 9999 become the nearest valid one.
 * @param ms - milliseconds since 1970
 * @throws {RangeError} `ms` is NaN.
 */
export function httpDate(ms: number): string {
  const second = Math.min(Math.max(Math.floor(ms / 1000), 0), LAST_SECOND)
  if (!Number.isNaN(second)) return httpDates.of(second)
  throw new RangeError('httpDate: the time must be a number of milliseconds, not NaN')
}

const MONTHS = ['Jan', 'Feb', 'Mar', 'Apr', 'May', 'Jun', 'Jul', 'Aug', 'Sep', 'Oct', 'Nov', 'Dec']
const MONTH = `(${MONTHS.join('|')})`
const DAY = '(?:Mon|Tue|Wed|Thu|Fri|Sat|Sun)'
const LONG_DAY = '(?:Mon|Tues|Wednes|Thurs|Fri|Satur|Sun)day'
const TIME = '(\\d{2}):(\\d{2}):(\\d{2})'
const IMF_FIXDATE = new RegExp(`^${DAY}, (\\d{2}) ${MONTH} (\\d{4}) ${TIME} GMT$`)
const RFC850 = new RegExp(`^${LONG_DAY}, (\\d{2})-${MONTH}-(\\d{2}) ${TIME} GMT$`)
const ASCTIME = new RegExp(`^${DAY} ${MONTH} (\\d{2}| \\d) ${TIME} (\\d{4})$`)
const LONGEST = 'Wednesday, 06-Nov-94 08:49:37 GMT'.length

/**
 * Reads an HTTP date in any of the three forms (RFC 9110 section 5.6.7). The name of the day must
 * be valid, but may be wrong for the date. A two-digit year more than 50 years ahead is in the last
 * century.
 * @returns milliseconds since 1970, or `undefined` if the text is not a date
 */
export function parseHttpDate(text: string): number | undefined {
  if (text.length > LONGEST) return undefined
  const fixed = IMF_FIXDATE.exec(text)
  if (fixed) return instant(Number(fixed[3]), fixed[2], fixed[1], fixed, 4)
  const asctime = ASCTIME.exec(text)
  if (asctime) return instant(Number(asctime[6]), asctime[1], asctime[2], asctime, 3)
  const old = RFC850.exec(text)
  return old ? twoDigitYear(old) : undefined
}

function twoDigitYear(match: RegExpExecArray): number | undefined {
  const now = new Date()
  const thisYear = now.getUTCFullYear()
  const year = thisYear - (thisYear % 100) + Number(match[3])
  const ms = instant(year, match[2], match[1], match, 4)
  const limit = new Date(now).setUTCFullYear(thisYear + 50)
  return ms !== undefined && ms > limit ? instant(year - 100, match[2], match[1], match, 4) : ms
}

function instant(
  year: number, monthName: string | undefined, dayText: string | undefined,
  time: RegExpExecArray, at: number,
): number | undefined {
  const month = MONTHS.indexOf(monthName ?? '')
  const day = Number(dayText)
  const hour = Number(time[at])
  const minute = Number(time[at + 1])
  const second = Number(time[at + 2])
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

/**
 * Parses a timestamp of RFC 3339 (section 5.6), such as `2026-03-01T09:30:00+01:00`, into
 * milliseconds since 1970. Returns `undefined` if it is malformed, or names a day or a time that
 * does not exist. A leap second is the first second of the next minute.
 */
export function parseTimestamp(text: string): number | undefined {
  const { groups } = TIMESTAMP.exec(text) ?? {}
  if (groups === undefined) return undefined
  const part = (name: string): number => Number(groups[name] ?? 0)
  const [hour, minute, second] = [part('hour'), part('minute'), part('second')]
  const [zoneHour, zoneMinute] = [part('zoneHour'), part('zoneMinute')]
  if (hour > 23 || minute > 59 || second > 60 || zoneHour > 23 || zoneMinute > 59) return undefined
  const date = new Date(0)
  date.setUTCFullYear(part('year'), part('month') - 1, part('day'))
  // A day or a month that does not exist has become one of the next month or year.
  if (date.getUTCMonth() !== part('month') - 1 || date.getUTCDate() !== part('day')) {
    return undefined
  }
  const offset = (zoneHour * 60 + zoneMinute) * (groups['sign'] === '-' ? -60_000 : 60_000)
  const milliseconds = Number((groups['fraction'] ?? '').padEnd(3, '0').slice(0, 3))
  return date.setUTCHours(hour, minute, second, milliseconds) - offset
}
