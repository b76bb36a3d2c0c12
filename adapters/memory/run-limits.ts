import type { RunLimits } from '../../src/engine/engine.js'
import { Share, type Due } from './stored-task.js'

/** Limits of what runs in one pool, and the ready tasks that wait for a run of their caller to end. */
export class PoolLimits {
  #running = 0
  readonly #shares = new Map<string, Share>()
  /** Start times of the newest runs, the oldest first. */
  readonly #starts: number[] = []

  constructor(readonly limits: RunLimits) {}

  /** The tasks that are held. */
  *[Symbol.iterator](): Generator<Due, void> {
    for (const { held } of this.#shares.values()) yield* held
  }

  /**
   * Returns the delay until a run may begin, in milliseconds. `Infinity` means that another run
   * must end first.
   */
  delay(now: number): number {
    const { maxRunning = Infinity, startsPer } = this.limits
    if (this.#running >= maxRunning) return Infinity
    if (startsPer === undefined || this.#starts.length < startsPer.count) return 0
    return Math.max((this.#starts[0] as number) + startsPer.ms - now, 0)
  }

  /**
   * Holds a task if the running tasks of its caller take a whole share. Returns the task that is
   * ready in its place: the next one of a share with a free place. Returns `undefined` if the task
   * may begin.
   */
  hold(due: Due): { readonly next: Due | undefined } | undefined {
    const shares = this.#sharesOf(due)
    const full = shares.find(({ isFull }) => isFull)
    if (full === undefined) return undefined
    full.held.add(due)
    due.share = full
    const other = shares.find(({ isFull }) => !isFull)
    return { next: other && this.#release(other) }
  }

  begin(due: Due, now: number): void {
    this.#running++
    due.node.shares = this.#sharesOf(due)
    for (const share of due.node.shares) share.running++
    const { startsPer } = this.limits
    if (startsPer === undefined) return
    if (this.#starts.push(now) > startsPer.count) this.#starts.shift()
  }

  /** Frees the places of a run. Returns the tasks that are ready now. */
  end(shares: readonly Share[]): readonly Due[] {
    this.#running--
    return shares.flatMap((share) => {
      share.running--
      const next = this.#release(share)
      this.#forget(share)
      return next ?? []
    })
  }

  /** Removes a task that is held. */
  remove(due: Due): void {
    const share = due.share as Share
    share.held.remove(due)
    due.share = undefined
    this.#forget(share)
  }

  #release(share: Share): Due | undefined {
    const next = share.held.first
    if (next) this.remove(next)
    return next
  }

  #forget({ key, running, held }: Share): void {
    if (running === 0 && held.first === undefined) this.#shares.delete(key)
  }

  #sharesOf({ node: { caller, name } }: Due): readonly Share[] {
    if (caller === undefined) return []
    const { maxPerCaller, maxPerCallerOf } = this.limits
    const ofName = maxPerCallerOf?.get(name)
    return [
      ...ofName === undefined ? [] : [this.#share(`${name}\n${caller}`, ofName)],
      ...maxPerCaller === undefined ? [] : [this.#share(`\n${caller}`, maxPerCaller)],
    ]
  }

  #share(key: string, max: number): Share {
    const found = this.#shares.get(key) ?? new Share(key, max)
    this.#shares.set(key, found)
    return found
  }
}
