import type { WorkHandlers, WorkOptions } from '../../../src/engine/engine.js'
import { LeasedWork } from '../../../src/engine/leased-work.js'
import { isRunReplaced, type LeasedRun, type Renewal } from '../../../src/engine/runs.js'
import type { StoredTask } from '../../../src/engine/task.js'
import { newId } from '../../../src/runtime/random-id.js'
import { nextTurn } from '../../../src/runtime/timers.js'
import { observed } from '../../../src/stores/calls.js'
import type { Database } from '../database.js'
import type { ChangeNotices } from '../notices.js'
import { LimitedTakes } from './limited-takes.js'
import {
  ASKS, beginSql, optional, runColumns, toRun, toTask, CLOCK, HELD, SAME_NOW, taskColumns, turnSql,
  type RunRow, type TaskRow,
} from './rows.js'

/** Shortest time between two looks for what is due, in milliseconds. */
const MIN_LOOK_MS = 10
/** Maximum number of runs that one statement begins in one pool. */
const MAX_TAKEN = 50

/** Notice that work is due. If the name of a pool follows, a task waits in this pool. */
export const DUE = '!'
/** Notice that another process has ended the run of a task. */
export const STOP = '?'
/** Notice that a pool has room under its limits. The name of the pool follows. */
const FREE = '+'

interface Found {
  /** Pools in which tasks wait. */
  readonly pools: readonly string[]
  readonly paused: readonly string[]
  /** Pools in which tasks are held. */
  readonly held: readonly string[]
  readonly next_start_ms: number | null
  readonly next_callback_ms: number | null
  readonly has_removals: boolean
  readonly has_more: boolean
}

interface WorkerHost {
  readonly database: Database
  readonly notices: ChangeNotices
  readonly leaseMs: number
}

/**
 * Starts work that is due. A look gives waiting tasks their turn, and takes callbacks and removals
 * of files. Runs are taken when a call, a notice or a look says that tasks wait.
 */
export class Worker {
  readonly work: LeasedWork
  private readonly sql: WorkerSql
  private readonly waiting = new Set<string>()
  private readonly limited = new Map<string, LimitedTakes>()
  /** Pools with limits that have no room. */
  private readonly closed = new Set<string>()
  /** Number of times that a pool got room. */
  private opens = 0
  private isTaking = false
  /** Ends of leases by the names of statements whose replies were lost, and which may have begun runs. */
  private readonly lostTakes = new Map<string, number>()

  constructor(
    private readonly host: WorkerHost, options: WorkOptions, handlers: WorkHandlers,
  ) {
    const { database, notices, leaseMs } = host
    this.sql = workerSql(database.schema)
    this.work = new LeasedWork(options, handlers, {
      leaseMs,
      // Nothing else keeps the process alive while the server is down.
      keepsAlive: true,
      renew: (runs) => observed('renew', () => this.renew(runs)),
      look: () => this.look(),
    })
    const { places, limits = [] } = options
    for (const [pool, of] of limits) {
      this.limited.set(pool, new LimitedTakes(database.query, database.schema, pool, of))
    }
    places.onFree((pool) => { if (this.waiting.has(pool)) this.take(pool) })
    // A lost notice is harmless, because the worker also looks every second.
    void notices.watch(DUE, () => { this.work.lookIn(0) })
    void notices.watch(STOP, () => { void this.work.leases.renew() })
    for (const pool of places.pools.keys()) {
      void notices.watch(DUE + pool, () => { this.take(pool) })
      if (this.limited.has(pool)) void notices.watch(FREE + pool, () => { this.open(pool) })
    }
    this.work.lookIn(0)
  }

  /**
   * Takes tasks of a pool. Returns `false` if this process has no free place, so that another
   * process could begin one.
   */
  take(pool: string): boolean {
    if (!this.work.options.places.pools.has(pool)) return false
    if (this.closed.has(pool)) return true
    this.waiting.add(pool)
    if (!this.isTaking) void this.work.track(() => this.takeAll())
    return this.hasPlace(pool)
  }

  hasPlace(pool: string): boolean {
    return !this.work.isClosing && this.work.options.places.freeIn(pool) > 0
  }

  /** Notes that a run has ended. */
  noteEnd({ pool, caller }: Pick<StoredTask, 'pool' | 'caller'>): void {
    const limited = this.limited.get(pool)
    if (!limited) return
    limited.free(caller)
    this.open(pool)
  }

  /** Takes tasks of a pool whose limits may have room. */
  private open(pool: string): void {
    this.opens++
    this.closed.delete(pool)
    this.take(pool)
  }

  /** Begins runs in the pools in which tasks wait. Never rejects. */
  private async takeAll(): Promise<void> {
    this.isTaking = true
    // In a later turn of the event loop, so that tasks that are created together are taken together.
    await nextTurn()
    const next = (): string | undefined => [...this.waiting].find((pool) => (
      this.hasPlace(pool) || this.limited.get(pool)?.hasFreed === true
    ))
    try {
      for (let pool = next(); pool !== undefined; pool = next()) await this.takeFrom(pool)
    } catch (error) {
      // The next look tries again.
      this.work.noteFailure('take', error)
    }
    this.isTaking = false
  }

  private async takeFrom(pool: string): Promise<void> {
    const { places } = this.work.options
    const limited = this.limited.get(pool)
    let count = 0
    while (count < MAX_TAKEN && this.hasPlace(pool) && places.tryAcquire(pool)) count++
    this.waiting.delete(pool)
    const leaseEnd = performance.now() + this.host.leaseMs
    const name = newId()
    let rows: readonly RunRow[] = []
    try {
      rows = limited ? await this.takeLimited(pool, limited, count, name) : await observed('take', () => (
        this.host.database.query(this.sql.take, [pool, count, this.host.leaseMs, name])
      ))
      this.work.noteSuccess('take')
      if (!limited && rows.length === count) this.waiting.add(pool)
    } catch (error) {
      this.lostTakes.set(name, leaseEnd)
      this.waiting.add(pool)
      throw error
    } finally {
      for (let n = rows.length; n < count; n++) places.release(pool)
    }
    if (!limited && rows.length === count && !this.hasPlace(pool)) this.host.notices.send(DUE + pool)
    for (const row of rows) this.perform(toRun(row, leaseEnd), pool)
  }

  private async takeLimited(
    pool: string, limited: LimitedTakes, count: number, name: string,
  ): Promise<readonly RunRow[]> {
    const { opens } = this
    const { rows, next, hasMore, opensInMs } = await limited.take(count, this.host.leaseMs, name)
    if (next === 'again') this.waiting.add(pool)
    if (next === 'closed') {
      if (opensInMs !== undefined) this.work.lookIn(Math.max(opensInMs, MIN_LOOK_MS))
      // Unless the pool got room after the statement.
      if (opens === this.opens) this.closed.add(pool)
    }
    if (hasMore && rows.length === count && !this.hasPlace(pool)) this.host.notices.send(FREE + pool)
    return rows
  }

  private perform(run: LeasedRun, pool: string): void {
    const { caller, id } = run.task
    const isLimited = this.limited.has(pool)
    if (isLimited) {
      run.onAbort((reason) => { if (isRunReplaced(reason)) this.noteEnd({ pool, caller }) })
    }
    this.host.notices.notify(id)
    void this.work.perform(run).finally(() => {
      this.work.options.places.release(pool)
      if (!isLimited) return
      if (this.hasPlace(pool)) this.open(pool)
      else this.host.notices.send(FREE + pool)
    })
  }

  private async look(): Promise<void> {
    const { work, sql, host: { database: { query } } } = this
    await this.giveBack()
    const { places } = work.options
    const pools = [...places.pools.keys()]
    const values = [pools, pools.filter((pool) => this.limited.has(pool))]
    const [found] = await observed('look', () => query<Found>(sql.look, values))
    if (!found) return
    places.setPaused(found.paused)
    for (const pool of found.held) await this.lookAtHeld(pool)
    const due = pools.filter((pool) => !found.paused.includes(pool)
      && (found.pools.includes(pool) || this.limited.get(pool)?.hasFreed === true))
    for (const pool of due) this.open(pool)
    // Otherwise a take decides.
    if (!due.some((pool) => this.hasPlace(pool))) work.noteSuccess('take')
    if (found.has_more) work.lookIn(0)
    const nextStart = optional(found.next_start_ms)
    const nextCallback = optional(found.next_callback_ms)
    for (const ms of [nextStart, nextCallback]) {
      if (ms !== undefined && ms > 0) work.lookIn(Math.max(ms, MIN_LOOK_MS))
    }
    if (nextCallback !== undefined && nextCallback <= 0 && work.freeCallbacks > 0) {
      const rows = await observed('take', () => (
        query<TaskRow>(sql.takeCallbacks, [work.freeCallbacks])
      ))
      for (const row of rows) void work.callBack(toTask(row))
    }
    if (found.has_removals && work.freeRemovals > 0) {
      for (const row of await query<TaskRow>(sql.takeRemovals, [work.freeRemovals])) {
        // `Creates` may have given the row another id.
        const id = row.id.slice(row.id.lastIndexOf('~') + 1)
        void work.remove(toTask({ ...row, id }), (isRemoved) => (
          query(isRemoved ? sql.removed : sql.removeLater, [row.id, row.birth])
        ))
      }
    }
  }

  /** Releases held tasks for which limits have room, or all if their shares have no limit any more. */
  private async lookAtHeld(pool: string): Promise<void> {
    const limited = this.limited.get(pool)
    if (limited?.hasShares === true) {
      await limited.check()
    } else {
      await this.host.database.query(this.sql.releaseAll, [pool])
      this.work.lookIn(MIN_LOOK_MS)
    }
  }

  /**
   * Gives back the runs of takes without a reply. Repeats this until their leases end, because the
   * takes may be late.
   */
  private async giveBack(): Promise<void> {
    if (this.lostTakes.size === 0) return
    const now = performance.now()
    await this.host.database.query(this.sql.giveBack, [[...this.lostTakes.keys()]])
    for (const [name, leaseEnd] of this.lostTakes) if (leaseEnd < now) this.lostTakes.delete(name)
  }

  private async renew(runs: readonly LeasedRun[]): Promise<readonly Renewal[]> {
    const ids = runs.map(({ task }) => task.id)
    const rows = await this.host.database.query<{ readonly id: string, readonly is_renewed: boolean }>(
      this.sql.renew, [ids, runs.map(({ lease }) => lease), this.host.leaseMs],
    )
    const found = new Map(rows.map((row) => [row.id, row.is_renewed ? 'renewed' : 'busy'] as const))
    return ids.map((id) => found.get(id) ?? 'lost')
  }
}

/** Maximum number of tasks that one statement makes ready. */
const MAX_READY = 500
/** Time after which a callback or a removal of files without an outcome is tried again, in milliseconds. */
const AGAIN_MS = 60_000
/** Delay before files are removed again after a failure, in milliseconds. */
const REMOVE_FAILED_MS = 1000

/** SQL of the condition of a task that has not expired. */
const LIVE = `expires_at > ${SAME_NOW}`
/** SQL of the condition of a task whose callback may be sent. */
const HAS_CALLBACK = `(status >= 2 OR ${ASKS})`

type WorkerSql = ReturnType<typeof workerSql>

/** @param schema - quoted as an identifier */
function workerSql(schema: string) {
  const rows = `${schema}.task_rows`
  const pools = `${schema}.task_pools`
  const columns = taskColumns('task')
  return {
    look: lookSql(schema),
    /**
     * Begins at most `$2` runs of a pool (`$1`), with a lease of `$3` milliseconds and a name (`$4`). For
     * several pools, the planner would rather sort all that waits.
     */
    take: `WITH ${CLOCK}, taken AS MATERIALIZED (
  SELECT id, status, run_started_at FROM ${rows}
  WHERE pool = $1 AND turn IS NOT NULL AND ${LIVE}
    AND (SELECT pool FROM ${pools} WHERE pool = $1 AND is_paused) IS NULL
  ORDER BY priority, turn, due_at LIMIT $2::bigint FOR UPDATE SKIP LOCKED
)
${beginSql(rows)}
FROM taken WHERE task.id = taken.id AND task.turn IS NOT NULL
RETURNING ${runColumns()}`,
    /** Lets held tasks of a pool (`$1`) become due. */
    releaseAll: `UPDATE ${rows} SET due_at = held_due_at,
  lease_until = CASE WHEN status = 1 THEN held_due_at END
WHERE id = ANY(ARRAY(
  SELECT id FROM ${rows} WHERE pool = $1 AND ${HELD} LIMIT ${String(MAX_READY)}
  FOR UPDATE SKIP LOCKED
))`,
    /** Gives back the runs that takes with some names (`$1`) have begun. */
    giveBack: `WITH ${CLOCK}
UPDATE ${rows} SET status = 0, version = version + 1, attempt = attempt - 1,
  due_at = ${SAME_NOW}, turn = NULL, lease_until = NULL
WHERE status = 1 AND taken_by = ANY($1::text[])`,
    /** Begins up to `$1` attempts at callbacks. */
    takeCallbacks: `WITH ${CLOCK}
UPDATE ${rows} AS task SET callback_run = task.callback_run + 1,
  callback_at = ${SAME_NOW} + ${String(AGAIN_MS)}
WHERE id = ANY(ARRAY(
  SELECT id FROM ${rows} WHERE callback_at <= ${SAME_NOW} AND ${HAS_CALLBACK} AND ${LIVE}
  ORDER BY callback_at LIMIT $1::bigint FOR UPDATE SKIP LOCKED
)) RETURNING ${columns}`,
    takeRemovals: `WITH ${CLOCK}
UPDATE ${rows} AS task SET sweep_at = ${SAME_NOW} + ${String(AGAIN_MS)}
WHERE id = ANY(ARRAY(
  SELECT id FROM ${rows} WHERE has_files AND sweep_at <= ${SAME_NOW} AND expires_at <= ${SAME_NOW}
  ORDER BY sweep_at LIMIT $1::bigint FOR UPDATE SKIP LOCKED
)) RETURNING ${columns}`,
    removed: `WITH ${CLOCK} DELETE FROM ${rows}
WHERE id = $1 AND birth = $2 AND expires_at <= ${SAME_NOW}`,
    removeLater: `WITH ${CLOCK}
UPDATE ${rows} SET sweep_at = ${SAME_NOW} + ${String(REMOVE_FAILED_MS)}
WHERE id = $1 AND birth = $2 AND expires_at <= ${SAME_NOW}`,
    renew: renewSql(rows),
  }
}

/**
 * Gives a turn to the tasks of pools (`$1`) that are due. Returns what else there is to do. In pools
 * with limits (`$2`), a lease that is found over cannot be renewed, because its place is free.
 */
function lookSql(schema: string): string {
  const rows = `${schema}.task_rows`
  const pools = `${schema}.task_pools`
  return `WITH ${CLOCK}, delayed AS MATERIALIZED (
  SELECT id, pool, priority, caller, due_at FROM ${rows}
  WHERE pool = ANY($1::text[]) AND status = 0 AND turn IS NULL AND due_at <= ${SAME_NOW} AND ${LIVE}
  LIMIT ${String(MAX_READY)} FOR UPDATE SKIP LOCKED
), lost AS MATERIALIZED (
  SELECT id, pool, priority, caller, lease_until FROM ${rows}
  WHERE pool = ANY($1::text[]) AND status = 1 AND turn IS NULL AND lease_until <= ${SAME_NOW}
    AND ${LIVE}
  LIMIT ${String(MAX_READY)} FOR UPDATE SKIP LOCKED
), ready AS MATERIALIZED (
  SELECT *, row_number() OVER (PARTITION BY pool, priority, caller ORDER BY due_at, id) - 1 AS place
  FROM (SELECT * FROM delayed UNION ALL SELECT * FROM lost) AS due
), promoted AS (
  UPDATE ${rows} AS task SET turn = ${turnSql(rows, 'ready')}, due_at = ready.due_at,
    lease_until = CASE WHEN task.pool = ANY($2::text[]) THEN NULL ELSE task.lease_until END
  FROM ready WHERE task.id = ready.id AND task.turn IS NULL RETURNING task.pool
)
SELECT ARRAY(
  SELECT pool FROM promoted UNION
  SELECT pool FROM unnest($1::text[]) AS worked (pool)
  WHERE (
    SELECT turn FROM ${rows} AS task WHERE task.pool = worked.pool AND turn IS NOT NULL
    ORDER BY priority, turn LIMIT 1
  ) IS NOT NULL
) AS pools,
ARRAY(SELECT pool FROM ${pools} WHERE is_paused) AS paused,
ARRAY(SELECT pool FROM unnest($1::text[]) AS worked (pool) WHERE (
  SELECT true FROM ${rows} AS task WHERE task.pool = worked.pool AND ${HELD} LIMIT 1
)) AS held, (
  SELECT min(due_at) FROM unnest($1::text[]) AS worked (pool) CROSS JOIN LATERAL (
    SELECT due_at FROM ${rows} AS task WHERE task.pool = worked.pool AND status = 0
      AND turn IS NULL AND due_at > ${SAME_NOW} ORDER BY due_at LIMIT 1
  ) AS next
) - ${SAME_NOW} AS next_start_ms, (
  SELECT callback_at FROM ${rows} WHERE callback_at IS NOT NULL AND ${HAS_CALLBACK} AND ${LIVE}
  ORDER BY callback_at LIMIT 1
) - ${SAME_NOW} AS next_callback_ms,
EXISTS (SELECT FROM ${rows} WHERE has_files AND sweep_at <= ${SAME_NOW}) AS has_removals,
(SELECT count(*) FROM ready) >= ${String(MAX_READY)} AS has_more`
}

/** Renews leases (`$2`) of tasks (`$1`) for `$3` milliseconds. Returns the tasks that still run. */
function renewSql(rows: string): string {
  const runs = `status = 1 AND lease_until IS NOT NULL AND ${LIVE}`
  return `WITH ${CLOCK}, own AS MATERIALIZED (
  SELECT * FROM unnest($1::text[], $2::text[]) AS own (id, taken_by)
), free AS MATERIALIZED (
  SELECT id FROM ${rows} AS task JOIN own USING (id, taken_by) WHERE ${runs}
  ORDER BY id FOR UPDATE OF task SKIP LOCKED
), renewed AS (
  UPDATE ${rows} AS task SET lease_until = ${SAME_NOW} + $3::float8, turn = NULL
  FROM free WHERE task.id = free.id RETURNING task.id
)
SELECT id, id IN (SELECT id FROM renewed) AS is_renewed
FROM ${rows} AS task JOIN own USING (id, taken_by) WHERE ${runs}`
}
