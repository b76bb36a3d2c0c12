import type { LeasedWork } from '../../src/engine/leased-work.js'
import type { Database } from './database.js'
import type { RunLimiter } from './run-limits.js'

/** Findings of a look. */
export interface Due {
  /** True if something can begin, or become ready, in a transaction. */
  readonly isNow: boolean
  /** True if shares with room hold tasks. */
  readonly hasHeld: boolean
  /** Time until something is due, in milliseconds. */
  readonly nextMs: number | undefined
}

/** Pools and places of the worker that looks, and the time at which it looks. */
interface Look {
  readonly limiter: RunLimiter
  readonly pools: readonly string[]
  readonly work: LeasedWork
  readonly now: number
}

/** Reads what is due for a worker. */
export function findDue(database: Database, { limiter, pools, work, now }: Look): Due {
  const { places } = work.options
  const at = (sql: string, ...values: string[]): number => (
    database.first<{ readonly at: number | null }>(sql, ...values)?.at ?? Infinity
  )
  const times = pools.flatMap((pool) => [at(DELAYED, pool), at(LEASED, pool) + 1])
  if (work.freeCallbacks > 0) times.push(at(CALLBACK))
  if (work.freeRemovals > 0) times.push(at('SELECT min(at) AS at FROM longhaul_removals'))
  for (const pool of pools) {
    const waits = places.freeIn(pool) > 0 && database.first(WAITING, pool) !== undefined
    if (waits) times.push(now + limiter.delay(pool))
  }
  const hasExpired = Math.min(at(EXPIRY), at(RUN_EXPIRY)) <= now
  const hasHeld = limiter.hasHeld()
  const next = Math.min(...times)
  return {
    isNow: hasExpired || hasHeld || next <= now, hasHeld,
    nextMs: next > now && next < Infinity ? next - now : undefined,
  }
}

const WAITING = 'SELECT 1 FROM longhaul_tasks WHERE turn IS NOT NULL AND pool = ? LIMIT 1'
const DELAYED = `SELECT min(dueAt) AS at FROM longhaul_tasks
WHERE pool = ? AND turn IS NULL AND held IS NULL AND status = 0`
const LEASED = `SELECT min(leaseUntil) AS at FROM longhaul_tasks
WHERE pool = ? AND status = 1 AND turn IS NULL AND held IS NULL`
const EXPIRY = 'SELECT min(expiresAt) AS at FROM longhaul_tasks WHERE status <> 1'
const RUN_EXPIRY = `SELECT min(expiresAt) AS at FROM longhaul_tasks INDEXED BY longhaul_tasks_lease
WHERE status = 1`
const CALLBACK = 'SELECT min(callbackAt) AS at FROM longhaul_tasks WHERE callbackAt IS NOT NULL'
