import type { AnyTaskDefinition } from './define.js'

/** Takes away what was kept for a task that will not run any more. Never rejects. */
export async function releaseKept(definition: AnyTaskDefinition | undefined, name: string): Promise<void> {
  try {
    await definition?.keeps?.release(name)
  } catch {
    // It expires.
  }
}
