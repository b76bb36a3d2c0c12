import type { Queue, QueueCounts } from '../../queues/queue.js'
import { DEFAULT_POOL, isPoolName, poolOf } from '../../queues/queue-pools.js'
import { checkBounds, COUNT } from '../definition/bounds.js'
import type { AnyTaskDefinition } from '../definition/define.js'
import { RunSlots } from './run-slots.js'

/** Settings of one pool. */
export interface PoolOptions {
  /** Maximum number of concurrent runs of this pool in this process. Default 10. */
  readonly concurrency?: number
}

/** Work of one pool, in all processes. */
export interface PoolCounts extends QueueCounts {
  /** Name of the pool. */
  readonly pool: string
}

/** Settings of `Pools`. */
export interface PoolSettings {
  readonly queue: Queue
  readonly definitions: readonly AnyTaskDefinition[]
  readonly worker?: boolean
  readonly direct?: 'here' | 'queue'
  /** Concurrency of the default pool. */
  readonly concurrency?: number
  readonly pools?: Readonly<Record<string, PoolOptions>>
  readonly work?: readonly string[]
}

const POOL = { concurrency: COUNT } satisfies Record<keyof PoolOptions, unknown>

/** The pools of one process: their queues, and their slots for runs. */
export class Pools {
  private readonly slots = new Map<string, RunSlots>()
  /** The pools that this process works. */
  private readonly worked: ReadonlySet<string>

  /** @throws {TypeError} The settings make no sense. */
  constructor(private readonly settings: PoolSettings) {
    const { concurrency = 10, pools = {}, work, worker = true } = settings
    this.slots.set(DEFAULT_POOL, new RunSlots(concurrency))
    for (const [name, options] of Object.entries(pools)) {
      this.slots.set(name, new RunSlots(concurrencyOf(name, options)))
    }
    check(settings, this.slots)
    this.worked = new Set(worker ? work ?? this.slots.keys() : [])
  }

  /** Returns the slots of the pool of a definition. */
  slotsOf({ pool = DEFAULT_POOL }: AnyTaskDefinition): RunSlots {
    const slots = this.slots.get(pool)
    if (slots) return slots
    throw new TypeError(`There is no pool ${pool}`)
  }

  /** Returns whether this process does the work of direct answers of a definition itself. */
  isDirectHere({ pool = DEFAULT_POOL }: AnyTaskDefinition): boolean {
    const { direct } = this.settings
    return direct === undefined ? this.worked.has(pool) : direct === 'here'
  }

  /** Calls `start` for each pool that this process works. */
  work(start: (queue: Queue, slots: RunSlots) => void): void {
    for (const [name, slots] of this.slots) {
      if (this.worked.has(name)) start(poolOf(this.settings.queue, name), slots)
    }
  }

  /** Counts the work of each pool. A pool is absent if its queue cannot count. */
  async counts(): Promise<PoolCounts[]> {
    const counts = await Promise.all([...this.slots.keys()].map(async (pool) => {
      const numbers = await poolOf(this.settings.queue, pool).counts?.()
      return numbers ? [{ pool, ...numbers }] : []
    }))
    return counts.flat()
  }
}

function concurrencyOf(name: string, options: PoolOptions): number {
  if (!isPoolName(name)) throw fault('a name in pools must be 1 to 64 of A-Z a-z 0-9 _ -')
  if (name === DEFAULT_POOL) {
    throw fault('pools must not name default; its concurrency is the option concurrency')
  }
  checkBounds(`createTasks: pools.${name}`, options, POOL)
  return options.concurrency ?? 10
}

function check(
  { queue, definitions, pools, work, worker }: PoolSettings, known: ReadonlyMap<string, unknown>,
): void {
  const names = [...known.keys()].join(', ')
  if (pools && Object.keys(pools).length > 0 && !queue.pool) throw fault('this queue has no pools; use MemoryQueue, BullMQQueue or PostgresQueue')
  for (const { name, pool = DEFAULT_POOL } of definitions) {
    if (!known.has(pool)) {
      throw fault(`the definition ${name} names the pool ${pool}, which is not in pools; add it there`)
    }
  }
  if (work === undefined) return
  const given: unknown = work
  if (!Array.isArray(given) || given.length === 0) {
    throw fault('work must be a list of pools; a process that works none has worker: false')
  }
  if (worker === false) throw fault('work and worker: false exclude each other')
  const unknown = work.find((name) => !known.has(name))
  if (unknown !== undefined) {
    throw fault(`work names ${String(unknown)}, which is not in pools (${names})`)
  }
  if (!queue.durable) {
    throw fault('work needs a queue that several processes share, because others must run the other pools')
  }
}

function fault(what: string): TypeError {
  return new TypeError(`createTasks: ${what}`)
}
