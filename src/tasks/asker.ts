/** Who asks: an owner, `null` for somebody who is nobody (sees what has no owner), `undefined` for the host itself. */
export type Asker = string | null | undefined

/** Whether this asker may know of the task. */
export function isVisible(task: { readonly owner?: string | undefined }, asker: Asker): boolean {
  return asker === undefined || task.owner === (asker ?? undefined)
}
