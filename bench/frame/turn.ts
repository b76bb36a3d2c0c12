/** Rotates a list, so that no element is always the first, which might find a less busy machine. */
export function turned<T>(list: readonly T[], by: number): T[] {
  const at = by % list.length
  return [...list.slice(at), ...list.slice(0, at)]
}
