import { isJsonObject } from '../http/body/json.js'

/**
 * Applies a JSON merge patch (RFC 7396) to a value, without changing either. `null` removes a
 * member.
 */
export function mergePatch(target: unknown, patch: unknown): unknown {
  if (!isJsonObject(patch)) return patch
  const merged: Record<string, unknown> = isJsonObject(target) ? { ...target } : {}
  for (const [name, value] of Object.entries(patch)) {
    if (value === null) Reflect.deleteProperty(merged, name)
    else merged[name] = mergePatch(Object.hasOwn(merged, name) ? merged[name] : undefined, value)
  }
  return merged
}
