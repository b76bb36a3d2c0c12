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

/**
 * Returns an upper estimate of the heap that a JSON value takes once it is parsed, in bytes. Small
 * text may take much: each `{}` takes some 64 bytes. Does not recurse.
 */
export function heapBytesOf(value: unknown): number {
  if (!isContainer(value)) return leafBytes(value)
  const open: object[] = [value]
  let bytes = 0
  const add = (child: unknown): void => {
    if (isContainer(child)) open.push(child)
    else bytes += leafBytes(child)
  }
  for (let next = open.pop(); next !== undefined; next = open.pop()) {
    bytes += 64
    if (Array.isArray(next)) for (const item of next) add(item)
    else {
      for (const key in next) {
        bytes += 48 + key.length
        add((next as Record<string, unknown>)[key])
      }
    }
  }
  return bytes
}

function isContainer(value: unknown): value is object {
  return typeof value === 'object' && value !== null
}

function leafBytes(value: unknown): number {
  return typeof value === 'string' ? 24 + 2 * value.length : 16
}
