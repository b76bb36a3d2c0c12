import { isHttpError } from '../http/errors.js'
import { isStoreUnavailable } from '../stores/store.js'
import type { Accepted } from './accept.js'
import type { AnyTaskDefinition } from './define.js'
import type { Ledger } from './ledger.js'

/** Takes away what was kept for a task that will not run any more. Never rejects. */
export async function releaseKept(definition: AnyTaskDefinition | undefined, name: string): Promise<void> {
  try {
    await definition?.keeps?.release(name)
  } catch {
    // It expires.
  }
}

/** Takes away what was kept for this input, if the task that was there already was made with something else. Never rejects. */
export async function releaseUnused(ledger: Ledger, definition: AnyTaskDefinition, input: unknown, { task, created }: Accepted): Promise<void> {
  const name = created ? undefined : definition.keeps?.of(input as never)
  if (name === undefined) return
  try {
    const held = await ledger.load(task.id)
    if (held?.record.keeps !== name) await releaseKept(definition, name)
  } catch {
    // Nobody knows; it expires.
  }
}

/** Errors of tasks that may have been accepted all the same. */
const open = new WeakSet<object>()

/** Whether the task that failed to be accepted with this error may be on record, or come to be: what is kept for it has to stay. */
export function mayBeAccepted(error: unknown): boolean {
  return typeof error === 'object' && error !== null && open.has(error)
}

/** Rethrows an error of the store or the queue, and remembers it for `mayBeAccepted` unless it is a refusal. */
export function failedToAccept(error: unknown): never {
  const refused = isHttpError(error) ? error.status < 500 : isStoreUnavailable(error) && error.reason === 'full'
  if (!refused && typeof error === 'object' && error !== null) open.add(error)
  throw error
}
