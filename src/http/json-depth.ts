/** Deeper JSON is refused: whatever walks through a value by recursion, `JSON.stringify` first of all, would run out of stack. */
export const MAX_JSON_DEPTH = 512

/** A text of so many UTF-16 units or fewer is not nested more deeply: each level takes two brackets. */
export const SHALLOW_UNITS = 2 * MAX_JSON_DEPTH + 1

/** Whether lists and objects are nested more deeply than `most` levels. A value that holds itself is. */
export function isTooDeep(value: unknown, most = MAX_JSON_DEPTH): boolean {
  return most !== Infinity && typeof value === 'object' && value !== null && !ArrayBuffer.isView(value) && isDeeper(value, most)
}

function isDeeper(node: object, left: number): boolean {
  if (left === 0) return true
  if (Array.isArray(node)) {
    for (const child of node as unknown[]) if (typeof child === 'object' && child !== null && isDeeper(child, left - 1)) return true
    return false
  }
  for (const key in node) {
    const child = (node as Readonly<Record<string, unknown>>)[key]
    if (typeof child === 'object' && child !== null && isDeeper(child, left - 1)) return true
  }
  return false
}
