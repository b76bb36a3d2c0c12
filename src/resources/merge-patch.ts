type Members = Readonly<Record<string, unknown>>

/** Applies a JSON merge patch (RFC 7396) to a value; `null` removes a member. Neither is changed. */
export function mergePatch(target: unknown, patch: unknown): unknown {
  if (!isObject(patch)) return patch
  const merged: Record<string, unknown> = isObject(target) ? { ...target } : {}
  for (const [name, value] of Object.entries(patch)) {
    if (value === null) Reflect.deleteProperty(merged, name)
    else merged[name] = mergePatch(Object.hasOwn(merged, name) ? merged[name] : undefined, value)
  }
  return merged
}

/** What is neither a list nor null. */
export function isObject(value: unknown): value is Members {
  return typeof value === 'object' && value !== null && !Array.isArray(value)
}
