import type { TaskQuery } from '../../engine/engine.js'

/** Returns whether `id` can be a task's id. Such a text stands in paths and keys unescaped. */
export function isTaskId(id: string): boolean {
  return id.length <= 128 && /^[A-Za-z0-9_-][A-Za-z0-9._-]*$/.test(id)
}

/** The tasks that a call sees: those of one owner, those without owner, or all. */
export type Scope = TaskQuery['of']

export function isIn(of: Scope, task: { readonly owner: string | undefined }): boolean {
  return of === 'all' || task.owner === of.owner
}
