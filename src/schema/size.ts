/**
 * Returns true if a JSON value has at most `limit` members and items, at all depths together. Stops
 * reading beyond the limit, and does not recurse.
 */
export function hasAtMost(value: unknown, limit: number): boolean {
  const open: unknown[] = [value]
  let seen = 0
  for (let next = open.pop(); next !== undefined || open.length > 0; next = open.pop()) {
    if (typeof next !== 'object' || next === null) continue
    if (Array.isArray(next)) {
      seen += next.length
      if (seen > limit) return false
      for (const item of next) open.push(item)
    } else {
      for (const key in next) {
        if (++seen > limit) return false
        open.push((next as Record<string, unknown>)[key])
      }
    }
  }
  return true
}
