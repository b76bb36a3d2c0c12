import type { PoolCounts as Counts } from '../../engine/engine.js'
import { DEFAULT_POOL, POOL_NAME, type AnyTaskDefinition } from '../definition/define.js'
import { readOptions, whole, type OptionTable } from '../../runtime/options.js'

/** Settings of one pool. */
export interface PoolOptions {
  /** Maximum number of concurrent runs of this pool in this process. Default 10. */
  readonly concurrency?: number
}

/** Work of one pool, in all processes. */
export interface PoolCounts extends Counts {
  /** Name of the pool. */
  readonly pool: string
}

export interface PoolSettings {
  readonly engine: { readonly shared: boolean }
  readonly definitions: readonly AnyTaskDefinition[]
  readonly worker?: boolean | readonly string[]
  /** Concurrency of the default pool. */
  readonly concurrency?: number
  readonly pools?: Readonly<Record<string, PoolOptions>>
}

export interface Pools {
  readonly pools: ReadonlyMap<string, number>
  readonly work: readonly string[]
}

const POOL = { concurrency: whole({ min: 1, default: 10 }) } satisfies OptionTable<PoolOptions>

/**
 * Returns the pools that options name.
 *
 * @throws {TypeError} The options make no sense.
 */
export function toPools(settings: PoolSettings): Pools {
  const { concurrency = 10, pools: more = {}, worker = true } = settings
  const pools = new Map([[DEFAULT_POOL, concurrency]])
  for (const [name, options] of Object.entries(more)) {
    pools.set(name, concurrencyOf(name, options))
  }
  check(settings, pools)
  return { pools, work: worker === true ? [...pools.keys()] : worker || [] }
}

function concurrencyOf(name: string, options: PoolOptions): number {
  if (!POOL_NAME.accepts(name)) throw fault(`a name in pools must be ${POOL_NAME.expects}`)
  if (name === DEFAULT_POOL) {
    throw fault('pools must not name default; its concurrency is the option concurrency')
  }
  return readOptions(`createTasks: pools.${name}`, options, POOL).concurrency
}

function check(
  { engine, definitions, worker }: PoolSettings, known: ReadonlyMap<string, unknown>,
): void {
  const names = [...known.keys()].join(', ')
  for (const { name, pool } of definitions) {
    if (!known.has(pool)) {
      throw fault(`the definition ${name} names the pool ${pool}, which is not in pools; add it there`)
    }
  }
  if (worker === undefined || typeof worker === 'boolean') return
  const isList: boolean = Array.isArray(worker)
  if (!isList || worker.length === 0) {
    throw fault('worker must be true, false or a list of pools; a process that works none has worker: false')
  }
  const unknown = worker.find((name) => !known.has(name))
  if (unknown !== undefined) {
    throw fault(`worker names ${unknown}, which is not in pools (${names})`)
  }
  if (!engine.shared) {
    throw fault('a list of pools as worker needs an engine that several processes share, because others must run the other pools')
  }
}

function fault(what: string): TypeError {
  return new TypeError(`createTasks: ${what}`)
}
