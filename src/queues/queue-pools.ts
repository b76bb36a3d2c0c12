import type { Queue } from './queue.js'

/** The name of the pool of definitions that name none. */
export const DEFAULT_POOL = 'default'

const NAME = /^[A-Za-z0-9_-]{1,64}$/

/** Returns whether a text can be the name of a pool. */
export function isPoolName(name: unknown): name is string {
  return typeof name === 'string' && NAME.test(name)
}

/** Returns the queue of a pool. `undefined` is the default pool. */
export function poolOf(queue: Queue, name: string | undefined): Queue {
  if (name === undefined || name === DEFAULT_POOL) return queue
  if (queue.pool) return queue.pool(name)
  throw new TypeError('This queue has no pools')
}

/** The queues of the pools of one queue, created when they are first used. */
export class QueuePools<Q extends Queue> {
  private readonly queues = new Map<string, Q>()
  private isClosed = false

  /** @param create - creates the queue of the pool with this name */
  constructor(private readonly create: (name: string) => Q) {}

  /**
   * Returns the queue of a pool.
   *
   * @throws {TypeError} The name is not valid.
   * @throws {Error} The queues were closed before this pool was used.
   */
  get(name: string): Q {
    const known = this.queues.get(name)
    if (known) return known
    if (!isPoolName(name)) {
      throw new TypeError(`a pool must be 1 to 64 of A-Z a-z 0-9 _ -, not ${String(name)}`)
    }
    if (this.isClosed) throw new Error(`The queue is closed, so its pool ${name} cannot be opened`)
    const queue = this.create(name)
    this.queues.set(name, queue)
    return queue
  }

  /** The queues that exist. */
  get all(): readonly Q[] {
    return [...this.queues.values()]
  }

  /** Closes all queues of pools. */
  async close(options: { readonly drainMs?: number }): Promise<void> {
    this.isClosed = true
    await Promise.all(this.all.map((queue) => queue.close(options)))
  }
}
