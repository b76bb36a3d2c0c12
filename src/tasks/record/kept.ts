import { isHttpError } from '../../http/errors.js'
import { isStoreUnavailable } from '../../stores/store.js'
import type { AnyTaskDefinition } from '../definition/define.js'
import type { Ledger } from './ledger.js'

interface Known {
  readonly task: { readonly id: string }
  readonly created: boolean
}

/** Takes away what was kept for a task that will not run any more. Never rejects. */
export async function releaseKept(definition: AnyTaskDefinition | undefined, name: string): Promise<void> {
  try {
    await definition?.keeps?.release(name)
  } catch {
    // It expires.
  }
}

/** Inputs of tasks that were accepted, or may have been although it does not look so. */
const inUse = new WeakSet<object>()

/**
 * Whether a task may use this input, when the request that brought it ends with this error: what is
 * kept for it has to stay.
 */
export function mayBeInUse(input: unknown, error: unknown): boolean {
  return isObject(input) ? inUse.has(input) : !isRefusal(error)
}

/**
 * Passes on how the acceptance of a task ends, and remembers its input for `mayBeInUse` unless it
 * was refused. If the task was there already, and was made with something else, takes away what is
 * kept for this input.
 */
export async function settleKept<T extends Known>(
  ledger: Ledger, definition: AnyTaskDefinition, input: unknown, taken: Promise<T>,
): Promise<T> {
  if (isObject(input)) inUse.add(input)
  let accepted: T
  try {
    accepted = await taken
  } catch (error) {
    if (isObject(input) && isRefusal(error)) inUse.delete(input)
    throw error
  }
  const name = accepted.created ? undefined : definition.keeps?.of(input as never)
  if (name !== undefined) await releaseUnused(ledger, definition, name, accepted.task.id)
  return accepted
}

function isRefusal(error: unknown): boolean {
  return isHttpError(error) ? error.status < 500 : isStoreUnavailable(error) && error.reason === 'full'
}

function isObject(value: unknown): value is object {
  return typeof value === 'object' && value !== null
}

async function releaseUnused(ledger: Ledger, definition: AnyTaskDefinition, name: string, taskId: string): Promise<void> {
  try {
    const held = await ledger.load(taskId)
    if (held?.record.keeps !== name) await releaseKept(definition, name)
  } catch {
    // Nobody knows; it expires.
  }
}
