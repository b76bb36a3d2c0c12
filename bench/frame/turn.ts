/** Nobody is always the first, who finds an emptier machine than the others. */
export function turned<T>(list: readonly T[], by: number): T[] {
  const at = by % list.length
  return [...list.slice(at), ...list.slice(0, at)]
}
