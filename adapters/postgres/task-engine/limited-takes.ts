import type { RunLimits } from '../../../src/engine/engine.js'
import { observed } from '../../../src/stores/calls.js'
import type { Query } from '../connections.js'
import {
  beginSql, CLOCK, HELD, optional, runColumns, SAME_NOW, turnSql, type RunRow,
} from './rows.js'

/** Number of ready tasks that a take reads at first, and after it has met only held tasks. */
const SCAN = { first: 100, next: 500 }
/** Maximum number of pairs of a caller and a name that one check of held tasks reads. */
const MAX_PAIRS = 200
/** Maximum number of tasks of a share without a limit that one check releases. */
const MAX_RELEASED = 500

/** Runs that a take has begun, and what is left. */
export interface LimitedTake {
  readonly rows: readonly RunRow[]
  /** `again`: another take came first, or more may begin. `closed`: the pool has no room. */
  readonly next: 'again' | 'closed' | 'done'
  /** True if ready tasks are left for which the pool has room. */
  readonly hasMore: boolean
  /** Time until `startsPer` lets the next run begin, in milliseconds. */
  readonly opensInMs: number | undefined
}

/** The first row has the state of the pool, every row a run, if one began. */
interface Row extends Omit<RunRow, 'id'> {
  readonly id: string | null
  /** `null` if another take came first. */
  readonly room: number | null
  readonly opens_in: number | null
  readonly scanned: number
  readonly released: number
  readonly unmet: number
}

interface Pair {
  readonly caller: string
  readonly name: string
  readonly room: number
}

/** Parts of the limits of a pool that statements get as values. */
interface Values {
  readonly maxPerCaller: number | null
  readonly names: readonly string[]
  readonly maxOfNames: readonly number[]
}

/**
 * Takes in one pool with limits. A take reads what runs, and locks the row of the pool. If another
 * take has begun runs since then, the take begins nothing and is repeated. So takes of several
 * processes together obey the limits, and none waits for another statement while it has the lock.
 */
export class LimitedTakes {
  /** Callers whose runs have ended, with the number of ends. */
  private freed = new Map<string, number>()
  private scan = SCAN.first
  /** Pair of a caller and a name after which the next check of held tasks begins. */
  private checked: readonly [string, string] = ['', '']
  private readonly values: Values
  private readonly sql: Readonly<Record<'take' | 'check', string>>

  constructor(
    private readonly query: Query, schema: string, private readonly pool: string,
    private readonly limits: RunLimits,
  ) {
    const { maxPerCaller = null, maxPerCallerOf = new Map<string, number>() } = limits
    this.values = {
      maxPerCaller, names: [...maxPerCallerOf.keys()], maxOfNames: [...maxPerCallerOf.values()],
    }
    this.sql = { take: takeSql(schema), check: checkSql(schema) }
  }

  get hasShares(): boolean {
    return this.values.maxPerCaller !== null || this.values.names.length > 0
  }

  get hasFreed(): boolean {
    return this.freed.size > 0
  }

  /** Notes that runs of a caller have ended, so that the next take releases its held tasks. */
  free(caller: string | undefined, count = 1): void {
    if (caller === undefined || !this.hasShares) return
    this.freed.set(caller, (this.freed.get(caller) ?? 0) + count)
  }

  /** Begins at most `count` runs, and releases held tasks of callers whose runs have ended. */
  async take(count: number, leaseMs: number, lease: string): Promise<LimitedTake> {
    const { limits: { maxRunning = null, startsPer }, values, scan, freed } = this
    this.freed = new Map()
    let rows: readonly Row[] = []
    try {
      rows = await observed('take', () => this.query<Row>(this.sql.take, [
        this.pool, count, leaseMs, lease, scan, maxRunning, startsPer?.count ?? null,
        startsPer?.ms ?? null, values.maxPerCaller, values.names, values.maxOfNames,
        [...freed.keys()], [...freed.values()],
      ]))
    } finally {
      if (optional(rows[0]?.room ?? null) === undefined) {
        for (const [caller, ends] of freed) this.free(caller, ends)
      }
    }
    return this.readTake(rows, count)
  }

  private readTake(rows: readonly Row[], count: number): LimitedTake {
    const [state] = rows
    const begun = rows.filter((row): row is Row & RunRow => row.id !== null)
    const room = optional(state?.room ?? null)
    if (!state || room === undefined) {
      return { rows: [], next: 'again', hasMore: false, opensInMs: undefined }
    }
    const [scanned, released] = [Number(state.scanned), Number(state.released)]
    const isFull = scanned === this.scan
    this.scan = isFull && begun.length < count ? SCAN.next : SCAN.first
    const mayContinue = begun.length === count || isFull || released > 0
    return {
      rows: begun, next: room <= 0 ? 'closed' : mayContinue ? 'again' : 'done',
      hasMore: room > 0 && (Number(state.unmet) > 0 || released > 0),
      opensInMs: optional(state.opens_in),
    }
  }

  /**
   * Finds held tasks whose callers have room, because limits were raised or a process died. Each
   * call checks some callers, and the next call continues after them.
   */
  async check(): Promise<void> {
    const { maxPerCaller, names, maxOfNames } = this.values
    const pairs = await this.query<Pair>(this.sql.check, [
      this.pool, ...this.checked, maxPerCaller, names, maxOfNames,
    ])
    const last = pairs.length === MAX_PAIRS ? pairs.at(-1) : undefined
    this.checked = [last?.caller ?? '', last?.name ?? '']
    for (const { caller, room } of pairs) if (Number(room) > 0) this.free(caller, Number(room))
  }
}

/** SQL of the condition of a run that limits count: its lease has not been found to be over. */
const RUNS = `status = 1 AND turn IS NULL AND due_at < 'Infinity' AND expires_at > ${SAME_NOW}`

/** SQL by which a held task is due as before. */
const RELEASE = 'due_at = CASE WHEN task.due_at = \'Infinity\' THEN task.held_due_at ELSE task.due_at END'

/**
 * Returns a statement that begins at most `$2` runs of a pool (`$1`), with a lease (`$4`) of `$3`
 * milliseconds. It reads `$5` ready tasks. Limits: `$6` runs of the pool; `$7` begins in `$8`
 * milliseconds; `$9` runs of each caller; `$11` of those with a name of `$10`. It releases held tasks
 * of callers (`$12`) of whom `$13` runs have ended: they begin, or are ready.
 */
function takeSql(schema: string): string {
  const rows = `${schema}.task_rows`
  const pools = `${schema}.task_pools`
  const begins = `${schema}.task_begins`
  const inWindow = `pool = $1 AND began_at BETWEEN ${SAME_NOW} - $8::float8 AND ${SAME_NOW}`
  return `WITH ${CLOCK}, known AS MATERIALIZED (
  SELECT begun, is_paused FROM ${pools} WHERE pool = $1
), newest AS MATERIALIZED (
  SELECT begun, is_paused FROM ${pools} WHERE pool = $1 FOR UPDATE
), added AS (
  INSERT INTO ${pools} (pool) SELECT $1::text WHERE NOT EXISTS (SELECT FROM known)
  ON CONFLICT DO NOTHING
), oldest AS MATERIALIZED (
  SELECT began_at, before FROM ${begins} WHERE $7::bigint IS NOT NULL AND ${inWindow}
  ORDER BY began_at, before LIMIT 1
), state AS MATERIALIZED (
  SELECT begun, starts, CASE WHEN is_paused THEN 0 ELSE least(
    $6::bigint - (SELECT count(*) FROM (
      SELECT FROM ${rows} WHERE $6::bigint IS NOT NULL AND pool = $1 AND ${RUNS} LIMIT $6::bigint
    ) AS counted), starts, 1000000
  ) END AS room
  FROM known JOIN newest USING (begun, is_paused) CROSS JOIN LATERAL (
    SELECT $7::bigint - begun + coalesce((SELECT before FROM oldest), begun) AS starts
  ) AS starts
), ${releasedSql(rows)}, ${judgedSql(rows)}, locked AS MATERIALIZED (
  SELECT id, pool, turn, due_at, status, run_started_at, expires_at FROM ${rows}
  WHERE id = ANY(ARRAY(SELECT id FROM judged WHERE is_met OR is_held)) FOR UPDATE SKIP LOCKED
), free AS MATERIALIZED (
  SELECT * FROM locked JOIN judged USING (id) WHERE pool = $1 AND expires_at > ${SAME_NOW}
    AND CASE WHEN is_held THEN ${HELD} ELSE turn IS NOT NULL END
), taken AS MATERIALIZED (
  SELECT id, status, run_started_at FROM free WHERE is_met AND fits
), begun AS (
  ${beginSql(rows)}, ${RELEASE}
  FROM taken WHERE task.id = taken.id RETURNING ${runColumns()}
), held AS (
  UPDATE ${rows} AS task SET turn = NULL, held_due_at = task.due_at, due_at = 'Infinity',
    lease_until = NULL
  FROM free WHERE task.id = free.id AND is_met AND NOT fits AND NOT is_held
), promoted AS (
  UPDATE ${rows} AS task SET turn = new_turn, ${RELEASE}
  FROM free WHERE task.id = free.id AND is_held AND fits AND NOT is_met RETURNING 1
), counted AS (
  UPDATE ${pools} SET begun = begun + (SELECT count(*) FROM taken)
  WHERE pool = $1 AND EXISTS (SELECT FROM taken)
), ${logSql(schema)}
SELECT (room - (SELECT count(*) FROM taken))::float8 AS room,
  CASE WHEN starts <= (SELECT count(*) FROM taken)
    THEN coalesce((SELECT began_at FROM oldest), now) + $8::float8 + 1 - now END AS opens_in,
  (SELECT count(*) FROM waiting)::float8 AS scanned,
  (SELECT count(*) FROM promoted)::float8 AS released,
  (SELECT count(*) FROM judged WHERE NOT is_met)::float8 AS unmet, begun.*
FROM clock LEFT JOIN state ON true LEFT JOIN begun ON true`
}

/** Returns common table expressions that log begins, and remove those that are too old or of the future. */
function logSql(schema: string): string {
  const begins = `${schema}.task_begins`
  const logs = '$7::bigint IS NOT NULL AND EXISTS (SELECT FROM taken)'
  return `logged AS (
  INSERT INTO ${begins} (pool, began_at, before) SELECT $1, ${SAME_NOW}, begun FROM state
  WHERE ${logs}
), trimmed AS (
  DELETE FROM ${begins} WHERE ${logs} AND pool = $1 AND began_at < ${SAME_NOW} - $8::float8
), corrected AS (
  DELETE FROM ${begins} WHERE ${logs} AND pool = $1 AND began_at > ${SAME_NOW}
)`
}

/**
 * Returns common table expressions that read ready tasks (`waiting`), what runs of their callers, and
 * the held tasks of `$12` that are next, by priority and age. Each name is read by itself, because a
 * name whose own share is full may hold any number of tasks. The callers come from subqueries, so that
 * the planner assumes few of them, and does not compile the plan.
 */
function releasedSql(rows: string): string {
  const held = `pool = $1 AND caller = freed.caller AND ${HELD} AND expires_at > ${SAME_NOW}`
  return `waiting AS MATERIALIZED (
  SELECT id, caller, name, priority, turn, due_at FROM ${rows} AS task
  WHERE pool = $1 AND turn IS NOT NULL AND expires_at > ${SAME_NOW}
    AND (SELECT room FROM state) > 0
  ORDER BY priority, turn, due_at LIMIT $5::bigint
), names AS MATERIALIZED (
  SELECT * FROM unnest($10::text[], $11::bigint[]) AS names (name, max)
), running AS MATERIALIZED (
  SELECT caller, name, count FROM (
    SELECT caller FROM waiting
    WHERE caller <> '' AND ($9::bigint IS NOT NULL OR cardinality($10::text[]) > 0)
    UNION SELECT unnest($12::text[])
  ) AS callers CROSS JOIN LATERAL (
    SELECT name, count(*) AS count FROM ${rows} AS task
    WHERE task.pool = $1 AND task.caller = callers.caller AND ${RUNS} GROUP BY name
  ) AS runs
), busy AS MATERIALIZED (
  SELECT caller, sum(count)::bigint AS total FROM running GROUP BY caller
), freed AS MATERIALIZED (
  SELECT caller, greatest(least(count, $9::bigint - coalesce(total, 0)), 0) AS room
  FROM unnest((SELECT $12::text[]), (SELECT $13::bigint[])) AS freed (caller, count)
  LEFT JOIN busy USING (caller) WHERE EXISTS (SELECT FROM state)
), released AS MATERIALIZED (
  SELECT first.*, row_number() OVER (
    PARTITION BY first.priority, first.caller ORDER BY first.held_due_at, first.id
  ) - 1 AS place
  FROM freed CROSS JOIN LATERAL (
    SELECT one.* FROM (
      WITH RECURSIVE known AS (
        (SELECT name FROM ${rows} WHERE ${held} ORDER BY name LIMIT 1)
        UNION ALL
        SELECT (SELECT name FROM ${rows} WHERE ${held} AND name > known.name ORDER BY name LIMIT 1)
        FROM known WHERE known.name IS NOT NULL
      )
      SELECT name FROM known WHERE name IS NOT NULL
    ) AS known LEFT JOIN names USING (name)
    LEFT JOIN running ON running.caller = freed.caller AND running.name = known.name
    CROSS JOIN LATERAL (
      SELECT id, pool, caller, name, priority, held_due_at FROM ${rows}
      WHERE ${held} AND name = known.name
      ORDER BY priority, held_due_at
      LIMIT greatest(least(freed.room, names.max - coalesce(running.count, 0)), 0)
    ) AS one
    ORDER BY one.priority, one.held_due_at LIMIT freed.room
  ) AS first
)`
}

/**
 * Returns common table expressions that decide about ready and released tasks, in their order. A
 * task `fits` if its shares are not full at its turn. A task `is_met` if the take reads it before
 * it has begun all that it may.
 */
function judgedSql(rows: string): string {
  return `candidates AS MATERIALIZED (
  SELECT *, row_number() OVER (ORDER BY priority, turn, due_at) AS n FROM (
    SELECT *, false AS is_held FROM waiting UNION ALL
    SELECT id, caller, name, priority, ${turnSql(rows, 'released')}, held_due_at, true FROM released
  ) AS first
), named AS (
  SELECT id, n, caller, turn, is_held, caller = '' OR max IS NULL OR row_number() OVER (
    PARTITION BY caller, name ORDER BY n
  ) <= max - coalesce(count, 0) AS fits
  FROM candidates LEFT JOIN names USING (name) LEFT JOIN running USING (caller, name)
), shared AS (
  SELECT id, n, turn, is_held,
    fits AND (caller = '' OR $9::bigint IS NULL OR count(*) FILTER (WHERE fits) OVER (
      PARTITION BY caller ORDER BY n
    ) <= $9::bigint - coalesce(total, 0)) AS fits
  FROM named LEFT JOIN busy USING (caller)
), judged AS MATERIALIZED (
  SELECT id, turn AS new_turn, is_held, fits,
    count(*) FILTER (WHERE fits) OVER (ORDER BY n) - fits::integer
      < least($2::bigint, (SELECT room FROM state)) AS is_met
  FROM shared
)`
}

/**
 * Returns a statement that reads the callers of held tasks of a pool (`$1`), with the names of
 * these tasks, after a pair (`$2`, `$3`), and the number of runs for which each has room. A caller
 * with ready tasks has no room: the end of their runs releases its other tasks. `$4` to `$6`:
 * limits as in a take.
 */
function checkSql(schema: string): string {
  const rows = `${schema}.task_rows`
  const running = `SELECT count(*) FROM ${rows} AS task WHERE task.pool = $1
    AND task.caller = pairs.caller AND ${RUNS}`
  return `WITH RECURSIVE ${CLOCK}, pairs AS (
  SELECT 0 AS n, $2::text COLLATE "C" AS caller, $3::text COLLATE "C" AS name
  UNION ALL
  SELECT n + 1, next.caller, next.name FROM pairs CROSS JOIN LATERAL (
    SELECT caller, name FROM ${rows} WHERE pool = $1 AND ${HELD}
      AND (caller, name) > (pairs.caller, pairs.name)
    ORDER BY caller, name LIMIT 1
  ) AS next WHERE n < ${String(MAX_PAIRS)}
), names AS MATERIALIZED (
  SELECT * FROM unnest($5::text[], $6::bigint[]) AS names (name, max)
)
SELECT caller, name, CASE WHEN EXISTS (
    SELECT FROM ${rows} AS task
    WHERE task.caller = pairs.caller AND pool = $1 AND status < 2 AND turn IS NOT NULL
  ) THEN 0 ELSE least(
    $4::bigint - (${running}), max - (${running} AND task.name = pairs.name), ${String(MAX_RELEASED)}
  ) END::float8 AS room
FROM pairs LEFT JOIN names USING (name) WHERE n > 0 ORDER BY n`
}
