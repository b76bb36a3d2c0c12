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
