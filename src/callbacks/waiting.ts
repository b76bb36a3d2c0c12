/**
 * Counts the callbacks that wait in the memory of this process, in all and for each owner, so that
 * one owner's callbacks never take the room of another's.
 */
export class Waiting {
  private readonly ownerOf = new Map<string, string | undefined>()
  private readonly perOwner = new Map<string | undefined, number>()

  constructor(private readonly max: number, private readonly maxPerOwner: number) {}

  /** Counts the callback of a task, once. `false` when there is no room for it. */
  add(taskId: string, owner: string | undefined): boolean {
    if (this.ownerOf.has(taskId)) return true
    const count = this.perOwner.get(owner) ?? 0
    if (this.ownerOf.size >= this.max || count >= this.maxPerOwner) return false
    this.ownerOf.set(taskId, owner)
    this.perOwner.set(owner, count + 1)
    return true
  }

  /** Stops counting the callback of a task. */
  delete(taskId: string): void {
    if (!this.ownerOf.has(taskId)) return
    const owner = this.ownerOf.get(taskId)
    this.ownerOf.delete(taskId)
    const count = (this.perOwner.get(owner) ?? 1) - 1
    if (count === 0) this.perOwner.delete(owner)
    else this.perOwner.set(owner, count)
  }
}
