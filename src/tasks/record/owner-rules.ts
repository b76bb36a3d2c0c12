import type { OwnerId } from './owner-id.js'

/** Whether a requester with this owner may see the task. */
export function belongsTo(task: { readonly owner?: OwnerId }, owner: OwnerId): boolean {
  return task.owner === owner
}

/** Names an owner for limits. No name of an anonymous client equals it. */
export function countedAsOwner(owner: string): string {
  return `owner ${owner}`
}

/** Names an anonymous client for limits. */
export function countedWithoutOwner(address: string | undefined): string {
  return `address ${address ?? 'unknown'}`
}

/** Tells whether a task is one that the caller may see. */
export type Mine = (task: { readonly owner?: OwnerId }) => boolean

/** For the host's own code, which sees the tasks of all owners. */
export const everybodys: Mine = () => true
