import type { AnyTaskDefinition } from '../definition/define.js'
import type { EndedTask } from '../definition/external-resource.js'

/**
 * Releases an external resource of a task that will not run any more; see `external` of `defineTask`.
 * Never rejects, because the resource expires by itself.
 */
export async function releaseExternal(
  definition: AnyTaskDefinition | undefined, name: string,
): Promise<void> {
  try {
    await definition?.external?.release(name)
  } catch {
    // It expires.
  }
}

/**
 * Removes what is left of the external resource of a task that is gone. Never rejects, because it
 * expires by itself.
 */
export async function removeExternal(
  definition: AnyTaskDefinition | undefined, name: string, { id, attempt, status }: EndedTask,
): Promise<void> {
  const { external } = definition ?? {}
  if (external?.remove === undefined) return releaseExternal(definition, name)
  try {
    await external.remove(name, { id, attempt, status })
  } catch {
    // It expires.
  }
}

/**
 * Makes the external resource of a task live for at least `ttlMs` from now. Returns `false` if it
 * no longer exists. Rejects with what `renew` of the definition throws.
 */
export async function renewExternal(
  definition: AnyTaskDefinition | undefined, name: string | undefined, ttlMs: number,
): Promise<boolean> {
  return name === undefined || await definition?.external?.renew?.(name, ttlMs) !== false
}
