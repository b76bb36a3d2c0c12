import { checkOwnerId } from '../../http/requester.js'

/** Returns whether `id` can be a task's id. Such a text stands in paths and keys unescaped. */
export function isTaskId(id: string): boolean {
  return id.length <= 128 && /^[A-Za-z0-9_-][A-Za-z0-9._-]*$/.test(id)
}

/** The id of a task's owner; `undefined` for a task without an owner. */
export type OwnerId = string | undefined

/**
 * Returns the owner of a task that the application submits.
 *
 * @throws {TypeError} `owner` is there but is no id. `undefined` is rejected too, because it may be
 * an anonymous client's.
 */
export function ownerToSubmitFor(options: { readonly owner?: string }): OwnerId {
  const owner = checkOwnerId('tasks.submit: owner', options.owner)
  if (owner !== undefined || !('owner' in options)) return owner
  throw new TypeError('tasks.submit: owner is undefined. Leave it out for a task of your own; ' +
    'for a client who may be anonymous, write tasks.ownedBy(user?.id).submit(…)')
}

/**
 * Rejects `owner` where the application sees all tasks: `{ owner: undefined }` showed every task.
 */
export function refuseOwner(call: string, options: object): void {
  if (!('owner' in options)) return
  throw new TypeError(`tasks.${call}: there is no option "owner", because this call sees the tasks of all owners; ` +
    `write tasks.ownedBy(owner).${call}(…)`)
}

export function belongsTo(task: { readonly owner?: OwnerId }, owner: OwnerId): boolean {
  return task.owner === owner
}

export type IsVisible = (task: { readonly owner?: OwnerId }) => boolean

export const allTasks: IsVisible = () => true
