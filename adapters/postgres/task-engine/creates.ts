import { StoreUnavailableError } from '../../../src/stores/store.js'
import { nameFault } from '../../../src/engine/names.js'
import { createdTask, type Created, type NewTask } from '../../../src/engine/task.js'
import type { Query } from '../connections.js'
import type { Database } from '../database.js'
import { checkText, sqlState, toLifetime } from '../sql.js'
import { TurnBatches } from '../turn-batches.js'
import type { TaskReads } from './reads.js'
import { CLOCK, newRows, NOW, optional, SAME_NOW, turnSql } from './rows.js'

/** Maximum size of the values in one statement, in UTF-16 units. */
export const MAX_BATCH_LENGTH = 262_144
/** Number of attempts together with other tasks. */
const GATHERED_TRIES = 2
/**
 * Time after which a statement for several tasks stops waiting for an open transaction that creates a
 * task with the same id, key or new caller. The tasks are then created one by one.
 */
const MAX_WAIT = '50ms'
/** Time after which no further attempt is made, in milliseconds. */
export const MAX_MS = 2000

/** Columns of a new task. */
const COLUMNS = 'id text, birth text, key text, owner text, caller text, limit_group text, max bigint, '
  + 'name text, pool text, priority integer, input text, details text, at float8, delay float8, '
  + 'keep float8, has_files boolean'

/** There is no row for a task that has to be tried again. */
interface Row {
  readonly outcome: 'created' | 'exists' | 'caller_full'
  readonly id: string
  /** Id of the task that has its id or key. */
  readonly other: string
  readonly created_at: number
  readonly start_at: number | null
  readonly expires_at: number
}

/**
 * Creates tasks. Those of one turn of the event loop share a statement. Statements with one caller are
 * sent one after the other, because they would wait for each other in the database. A statement leaves
 * out tasks whose caller another transaction has locked, or that were created meanwhile: they are
 * tried again.
 */
export class Creates {
  private readonly gathered: string
  private readonly alone: string
  private readonly clear: string
  private readonly batches = new TurnBatches<NewTask, Row>(
    MAX_BATCH_LENGTH, (tasks) => this.send(this.gathered, tasks),
  )
  private readonly busy = new Map<string | undefined, Promise<void>>()

  constructor(private readonly database: Database, private readonly reads: TaskReads) {
    const { schema } = database
    this.gathered = createSql(schema, true)
    this.alone = createSql(schema, false)
    // An expired task gets another id, under which it waits for a sweep or the removal of its files.
    this.clear = `WITH ${CLOCK}
UPDATE ${schema}.task_rows SET id = '~' || birth || '~' || id, key = NULL, turn = NULL
WHERE (id = $1 OR key = $2) AND expires_at <= ${SAME_NOW}`
  }

  /** @param query - runs statements in a transaction. Default: each by itself */
  async create(task: NewTask, query?: Query): Promise<Created> {
    const fault = nameFault(task)
    if (fault) throw fault
    checkText(task.name, task.pool)
    const began = performance.now()
    for (let tries = 0; performance.now() - began < MAX_MS; tries++) {
      const found = await this.attempt(task, query, tries >= GATHERED_TRIES).catch((error: unknown) => {
        // 55P03: the statement has waited for a lock for too long.
        if (sqlState((error as Error).cause) !== '55P03') throw error
        tries = GATHERED_TRIES
      })
      if (found?.outcome === 'created') {
        const [createdAt, expiresAt] = [Number(found.created_at), Number(found.expires_at)]
        const startAt = optional(found.start_at)
        return { outcome: 'created', task: createdTask(task, createdAt, startAt, expiresAt) }
      }
      if (found?.outcome === 'caller_full') return { outcome: 'caller_full' }
      const other = found && await this.reads.read(found.other, query)
      if (other) return { outcome: other.birth === task.birth ? 'created' : 'exists', task: other }
      // An expired task may have the id or the key, unless another call came first.
      if (!found) await (query ?? this.database.repeated)(this.clear, [task.id, task.key ?? null])
    }
    throw new StoreUnavailableError('Too many calls create tasks of one caller, id or key')
  }

  private async attempt(
    task: NewTask, query: Query | undefined, isAlone: boolean,
  ): Promise<Row | undefined> {
    const { id, key, caller, input } = task
    if (query) return (await query<Row>(this.alone, [JSON.stringify([toRecord(task)])]))[0]
    for (let busy = this.busy.get(caller); busy; busy = this.busy.get(caller)) await busy
    if (isAlone) return (await this.send(this.alone, [task]))[0]
    return this.batches.add(id, task, input.text.length + 500, key)
  }

  private async send(text: string, tasks: readonly NewTask[]): Promise<readonly Row[]> {
    const sent = this.database.repeated<Row>(text, [JSON.stringify(tasks.map(toRecord))])
    const settled = sent.then(() => undefined, () => undefined).then(() => {
      for (const { caller } of tasks) if (this.busy.get(caller) === settled) this.busy.delete(caller)
    })
    for (const { caller } of tasks) if (caller !== undefined) this.busy.set(caller, settled)
    return sent
  }
}

/**
 * Returns common table expressions that read `wanted` and decide on the limits of callers. `groups`
 * has the number of tasks for which each has room, by the snapshot. `valid` has the callers for which
 * that number still holds until the end of the transaction: a task that was created since the snapshot
 * has changed the row of its caller.
 *
 * @param skips - leaves out callers whose row is locked, instead of waiting
 */
export function limitsSql(schema: string, skips: boolean): string {
  // With a function that returns a set, the estimated cost would be so high that the plan is compiled.
  return `groups AS MATERIALIZED (
  SELECT caller, limit_group, max, max - (
    SELECT count(*) FROM (
      SELECT FROM ${schema}.task_rows AS task WHERE task.caller = asked.caller
        AND task.limit_group = asked.limit_group AND status < 2 AND expires_at > ${SAME_NOW}
      LIMIT max
    ) AS counted
  ) AS room
  FROM (
    SELECT DISTINCT caller, limit_group, max FROM wanted WHERE caller <> '' AND max IS NOT NULL
  ) AS asked
), known AS MATERIALIZED (
  SELECT caller, changed_at FROM ${schema}.task_callers
  WHERE caller IN (SELECT caller FROM groups WHERE room > 0)
), added AS (
  INSERT INTO ${schema}.task_callers (caller, changed_at)
  SELECT DISTINCT caller, clock_timestamp() FROM groups
  WHERE room > 0 AND caller NOT IN (SELECT caller FROM known) ORDER BY caller
  ON CONFLICT DO NOTHING RETURNING caller
), locked AS MATERIALIZED (
  SELECT caller, changed_at FROM ${schema}.task_callers
  WHERE caller IN (SELECT caller FROM known) ORDER BY caller FOR UPDATE ${skips ? 'SKIP LOCKED' : ''}
), same AS MATERIALIZED (
  SELECT caller FROM known JOIN locked USING (caller, changed_at)
), changed AS (
  UPDATE ${schema}.task_callers SET changed_at = clock_timestamp()
  WHERE caller IN (SELECT caller FROM same)
), valid AS MATERIALIZED (
  SELECT caller FROM same UNION ALL SELECT caller FROM added
)`
}

function createSql(schema: string, skips: boolean): string {
  // Each new row is joined with the clock, so that its lock_timeout applies before anything is locked.
  const rows = `${schema}.task_rows`
  const limit = skips ? `, set_config('lock_timeout', '${MAX_WAIT}', true)` : ''
  return `WITH clock AS MATERIALIZED (SELECT ${NOW} AS now${limit}), ${newRows(COLUMNS)}, found AS MATERIALIZED (
  SELECT new.id, other.id AS other FROM new CROSS JOIN LATERAL (
    (SELECT id FROM ${rows} AS old WHERE old.id = new.id AND expires_at > ${SAME_NOW} LIMIT 1)
    UNION ALL
    (SELECT id FROM ${rows} AS old WHERE old.key = new.key AND expires_at > ${SAME_NOW} LIMIT 1)
    LIMIT 1
  ) AS other
), wanted AS MATERIALIZED (
  SELECT new.*, coalesce(at, now + delay, now) AS due,
    row_number() OVER (PARTITION BY caller, limit_group ORDER BY n) - 1 AS group_place,
    row_number() OVER (PARTITION BY caller, pool, priority ORDER BY n) - 1 AS place
  FROM new CROSS JOIN clock WHERE id NOT IN (SELECT id FROM found)
), ${limitsSql(schema, skips)}, admitted AS MATERIALIZED (
  SELECT * FROM wanted LEFT JOIN groups USING (caller, limit_group, max)
  WHERE room IS NULL OR group_place < room AND caller IN (SELECT caller FROM valid)
), created AS (
  INSERT INTO ${rows} (id, birth, key, owner, caller, limit_group, name, pool, priority, input,
    details, has_files, created_at, start_at, expires_at, sweep_at, due_at, turn)
  SELECT id, birth, key, owner, caller, limit_group, name, pool, priority, input, details,
    has_files, ${SAME_NOW}, CASE WHEN due > ${SAME_NOW} THEN due END,
    greatest(due, ${SAME_NOW}) + keep, greatest(due, ${SAME_NOW}) + keep,
    greatest(due, ${SAME_NOW}),
    CASE WHEN due <= ${SAME_NOW} THEN ${turnSql(rows, 'admitted')} END
  FROM admitted ORDER BY key, id
  ON CONFLICT DO NOTHING RETURNING id, created_at, start_at, expires_at
)
SELECT 'created' AS outcome, id, id AS other, created_at, start_at, expires_at FROM created
UNION ALL SELECT 'exists', id, other, 0, 0, 0 FROM found
UNION ALL SELECT 'caller_full', id, id, 0, 0, 0
FROM wanted JOIN groups USING (caller, limit_group, max) WHERE room <= 0`
}

function toRecord(task: NewTask) {
  const { start, limit } = task
  return {
    id: task.id, birth: task.birth, key: task.key, owner: task.owner ?? '',
    caller: task.caller ?? '', limit_group: limit?.group, max: limit?.max, name: task.name,
    pool: task.pool, priority: task.priority, input: task.input.text,
    details: JSON.stringify(task.details), at: start && 'at' in start ? start.at : undefined,
    delay: start && 'delayMs' in start ? start.delayMs : undefined,
    keep: toLifetime(task.keepMs), has_files: task.hasFiles ?? false,
  }
}
