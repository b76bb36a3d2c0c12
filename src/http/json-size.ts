import { Buffer } from 'node:buffer'

/**
 * Whether a value that somebody else parsed takes more than `limit` bytes as JSON, without white space and escapes.
 * Looks no further than that. The value must not be nested too deeply, see `isTooDeep`.
 */
export function isJsonLarger(value: unknown, limit: number): boolean {
  return left(value, limit) < 0
}

/** Bytes of `limit` that remain after the value; negative when it does not fit. */
function left(value: unknown, limit: number): number {
  if (typeof value === 'string') return limit - Buffer.byteLength(value) - 2
  if (value === null) return limit - 4
  if (typeof value === 'number' || typeof value === 'bigint') return limit - String(value).length
  // `true` and `false`; for others JSON has no word.
  if (typeof value !== 'object') return limit - (value === false ? 5 : 4)
  if (ArrayBuffer.isView(value)) return limit - value.byteLength
  // Two brackets, and a comma less than there are members.
  let rest = limit - 1
  if (Array.isArray(value)) {
    for (const item of value as unknown[]) {
      rest = left(item, rest - 1)
      if (rest < 0) return rest
    }
    return value.length === 0 ? rest - 1 : rest
  }
  let empty = true
  for (const key in value) {
    empty = false
    rest = left((value as Readonly<Record<string, unknown>>)[key], rest - Buffer.byteLength(key) - 4)
    if (rest < 0) return rest
  }
  return empty ? rest - 1 : rest
}
