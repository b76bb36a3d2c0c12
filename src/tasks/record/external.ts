import type { AnyTaskDefinition } from '../definition/define.js'
import type { Ledger } from './ledger.js'

/**
 * Releases an external resource of a task that will not run any more; see `keeps` of `defineTask`.
 * Never rejects, because the resource expires by itself.
 */
export async function releaseExternal(
  definition: AnyTaskDefinition | undefined, name: string,
): Promise<void> {
  try {
    await definition?.keeps?.release(name)
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
  return name === undefined || await definition?.keeps?.renew?.(name, ttlMs) !== false
}

/**
 * Releases the external resource of an input that another request has submitted before, unless the
 * record of the task names this very resource. Never rejects.
 */
export async function releaseUnlessUsed(
  ledger: Ledger, definition: AnyTaskDefinition, input: unknown, taskId: string,
): Promise<void> {
  const name = definition.keeps?.of(input)
  if (name === undefined) return
  try {
    const existing = await ledger.load(taskId)
    if (existing?.record.keeps !== name) await releaseExternal(definition, name)
  } catch {
    // It is not known whether the task uses it. It expires.
  }
}
