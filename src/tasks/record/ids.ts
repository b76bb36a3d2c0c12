import { newId } from '../../runtime/random-id.js'

/** 48 bits as base64url. */
const NAME_LENGTH = 8

/** Returns whether `id` can be a task's id. Such a text stands in paths and keys unescaped. */
export function isTaskId(id: string): boolean {
  return id.length <= 128 && /^[A-Za-z0-9_-][A-Za-z0-9._-]*$/.test(id)
}

/**
 * Returns the birth of a task; see `TaskRef`.
 *
 * @param madeId - a new id that was made for this task. Its random bits are enough.
 */
export function newBirth(madeId = newId()): string {
  return madeId.slice(0, NAME_LENGTH)
}
