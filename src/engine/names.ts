import { isName, MAX_CALLER, NAME_RULE } from '../runtime/names.js'
import type { NewTask } from './task.js'

/** Maximum length of an id, in characters. */
const MAX_ID = 128

/**
 * Returns the error of a new task with a name that an engine must reject: empty, too long, not
 * well-formed, or with U+0000. A server may reject it together with the tasks of others.
 *
 * @example
 * function check(task: NewTask): void {
 *   const fault = nameFault(task)
 *   if (fault) throw fault
 * }
 */
export function nameFault(task: NewTask): TypeError | undefined {
  const { id, birth, key, owner, caller, unique } = task
  if (!isName(id, MAX_ID) || !isName(birth, MAX_ID)) {
    return new TypeError(`The id and the birth of a task must have 1 to ${MAX_ID} characters`)
  }
  if (key !== undefined && !isName(key)) return fault('key')
  if (unique !== undefined && !isName(unique.key)) return fault('business key')
  if (owner !== undefined && !isName(owner)) return fault('owner')
  if (caller !== undefined && !isName(caller, MAX_CALLER)) return fault('caller')
  return undefined
}

function fault(name: 'key' | 'business key' | 'owner' | 'caller'): TypeError {
  return new TypeError(`The ${name} of a task must be ${NAME_RULE}`)
}
