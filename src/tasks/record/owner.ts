import { checkOwnerId } from '../../http/requester.js'

/** The id of a task's owner; `undefined` for a task without an owner. */
export type OwnerId = string | undefined

/**
 * Returns the owner of a task that the host's own code submits.
 *
 * @throws {TypeError} `owner` is there but is no id. `undefined` is refused too, because it may be
 * an anonymous client's.
 */
export function ownerToSubmitFor(options: { readonly owner?: string }): OwnerId {
  const owner = checkOwnerId('tasks.submit: owner', options.owner)
  if (owner !== undefined || !('owner' in options)) return owner
  throw new TypeError('tasks.submit: owner is undefined. Leave it out for a task of your own; ' +
    'for a client who may be anonymous, write tasks.ownedBy(user?.id).submit(…)')
}

/**
 * Refuses `owner` where the host's code sees all tasks: `{ owner: undefined }` showed every task.
 */
export function refuseOwner(call: string, options: object): void {
  if (!('owner' in options)) return
  throw new TypeError(`tasks.${call}: there is no option "owner", because this call sees the tasks of all owners; ` +
    `write tasks.ownedBy(owner).${call}(…)`)
}

/** Returns whether a requester with this owner may see the task. */
export function belongsTo(task: { readonly owner?: OwnerId }, owner: OwnerId): boolean {
  return task.owner === owner
}

/** Returns whether the caller may see the task. */
export type IsVisible = (task: { readonly owner?: OwnerId }) => boolean

/** Makes all tasks visible, for the host's own code. */
export const allTasks: IsVisible = () => true
