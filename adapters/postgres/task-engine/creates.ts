import { StoreUnavailableError } from '../../../src/stores/store.js'
import { createdTask, nameFault, type Created, type NewTask, type StoredTask } from '../../../src/engine/task.js'
import type { Query } from '../connections.js'
import type { Database } from '../database.js'
import { checkText, sqlState, toLifetime } from '../sql.js'
import { TurnBatches } from '../turn-batches.js'
import type { TaskReads } from './reads.js'
import {
  CLOCK, newRows, NOW, optional, SAME_NOW, taskColumns, toTask, turnSql, type TaskRow,
} from './rows.js'

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
/** Columns of a new task with a business key. */
const UNIQUE_COLUMNS = `${COLUMNS}, unique_key text, replaces boolean`

/** There is no row for a task that has to be tried again. */
interface Row {
  readonly outcome: 'created' | 'exists' | 'replaced' | 'caller_full'
  readonly id: string
  /** Id of the task that has its id or key; the replaced task as JSON text. */
  readonly other: string
  readonly created_at: number
  readonly start_at: number | null
  readonly expires_at: number
}

/**
 * Creates tasks. The creates of one turn of the event loop share a statement. Statements with one
 * caller are sent one after the other, because they would wait for each other in the database. A
 * statement leaves out tasks whose caller another transaction has locked, or that were created
 * meanwhile: they are tried again.
 */
export class Creates {
  private readonly sql: Readonly<Record<'gathered' | 'alone' | 'clear', string>>
  /** Statements for tasks with business keys, which take longer. */
  private readonly unique: Readonly<Record<'gathered' | 'alone', string>>
  private readonly batches = new TurnBatches<NewTask, Row>(
    MAX_BATCH_LENGTH, (tasks) => this.send('gathered', tasks),
  )
  private readonly busy = new Map<string | undefined, Promise<void>>()

  constructor(private readonly database: Database, private readonly reads: TaskReads) {
    const { schema } = database
    this.sql = {
      gathered: createSql(schema, true, false), alone: createSql(schema, false, false),
      // An expired task gets another id, under which it waits for a sweep or the removal of its files.
      clear: `WITH ${CLOCK}
UPDATE ${schema}.task_rows SET id = '~' || birth || '~' || id, key = NULL, unique_key = NULL, turn = NULL
WHERE (id = $1 OR key = $2 OR unique_key = $3 AND status < 2) AND expires_at <= ${SAME_NOW}`,
    }
    this.unique = { gathered: createSql(schema, true, true), alone: createSql(schema, false, true) }
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
      if (found?.outcome === 'replaced') return { outcome: 'replaced', task: replacedTask(found) }
      const other = found && await this.reads.read(found.other, query)
      if (other) return { outcome: other.birth === task.birth ? 'created' : 'exists', task: other }
      // An expired task may have the id or a key, unless another call came first.
      if (!found) {
        const names = [task.id, task.key ?? null, task.unique?.key ?? null]
        await (query ?? this.database.repeated)(this.sql.clear, names)
      }
    }
    throw new StoreUnavailableError('Too many calls create tasks of one caller, id or key')
  }

  private async attempt(
    task: NewTask, query: Query | undefined, isAlone: boolean,
  ): Promise<Row | undefined> {
    const { id, key, caller, input, unique } = task
    if (query) return (await query<Row>(this.textFor('alone', [task]), [toJson([task])]))[0]
    for (let busy = this.busy.get(caller); busy; busy = this.busy.get(caller)) await busy
    if (isAlone) return (await this.send('alone', [task]))[0]
    const keys = [key && `key ${key}`, unique && `unique ${unique.key}`]
    return this.batches.add(id, task, input.text.length + 500, keys)
  }

  private textFor(kind: 'gathered' | 'alone', tasks: readonly NewTask[]): string {
    return (tasks.some(({ unique }) => unique) ? this.unique : this.sql)[kind]
  }

  private async send(
    kind: 'gathered' | 'alone', tasks: readonly NewTask[],
  ): Promise<readonly Row[]> {
    const sent = this.database.repeated<Row>(this.textFor(kind, tasks), [toJson(tasks)])
    const settled = sent.then(() => undefined, () => undefined).then(() => {
      for (const { caller } of tasks) if (this.busy.get(caller) === settled) this.busy.delete(caller)
    })
    for (const { caller } of tasks) if (caller !== undefined) this.busy.set(caller, settled)
    return sent
  }
}

/**
 * Returns common table expressions that read `wanted` and decide on the limits of callers. `groups`
 * has the number of tasks for which each group has room, by the snapshot. `valid` has the callers
 * for which that number still holds until the end of the transaction: a task that was created since
 * the snapshot has changed the row of its caller.
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

/**
 * @param skips - leaves out callers whose row is locked, instead of waiting
 * @param isUnique - some of the tasks have business keys
 */
function createSql(schema: string, skips: boolean, isUnique: boolean): string {
  // Each new row is joined with the clock, so that its lock_timeout applies before anything is locked.
  const rows = `${schema}.task_rows`
  const limit = skips ? `, set_config('lock_timeout', '${MAX_WAIT}', true)` : ''
  const [columns, unique] = isUnique ? [UNIQUE_COLUMNS, ', unique_key'] : [COLUMNS, '']
  const same = isUnique ? sameKeySql(rows) : { found: '', replaces: 'false', tables: '', outcomes: '' }
  return `WITH clock AS MATERIALIZED (SELECT ${NOW} AS now${limit}), ${newRows(columns)}, found AS MATERIALIZED (
  SELECT new.id, other.id AS other, other.replaces FROM new CROSS JOIN LATERAL (
    (SELECT id, false AS replaces FROM ${rows} AS old
      WHERE old.id = new.id AND expires_at > ${SAME_NOW} LIMIT 1)
    UNION ALL
    (SELECT id, false FROM ${rows} AS old
      WHERE old.key = new.key AND expires_at > ${SAME_NOW} LIMIT 1)
    ${same.found} LIMIT 1
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
    details, has_files, created_at, start_at, expires_at, sweep_at, due_at, turn${unique})
  SELECT id, birth, key, owner, caller, limit_group, name, pool, priority, input, details,
    has_files, ${SAME_NOW}, CASE WHEN due > ${SAME_NOW} THEN due END,
    greatest(due, ${SAME_NOW}) + keep, greatest(due, ${SAME_NOW}) + keep,
    greatest(due, ${SAME_NOW}),
    CASE WHEN due <= ${SAME_NOW} THEN ${turnSql(rows, 'admitted')} END${unique}
  FROM admitted ORDER BY key, id
  ON CONFLICT DO NOTHING RETURNING id, created_at, start_at, expires_at
)${same.tables}
SELECT 'created' AS outcome, id, id AS other, created_at, start_at, expires_at FROM created
UNION ALL SELECT 'exists', id, other, 0, 0, 0 FROM found WHERE NOT replaces
UNION ALL SELECT 'caller_full', id, id, 0, 0, 0
FROM wanted JOIN groups USING (caller, limit_group, max) WHERE room <= 0${same.outcomes}`
}

/** Returns the parts of the statement that find an unfinished task by its business key, and replace it. */
function sameKeySql(rows: string) {
  return {
    found: `UNION ALL
    (SELECT id, new.replaces AND run = 0 FROM ${rows} AS old
      WHERE old.unique_key = new.unique_key AND status < 2 AND expires_at > ${SAME_NOW} LIMIT 1)`,
    tables: `, swapped AS MATERIALIZED (
  SELECT new.id AS new_id, other, new.pool, new.priority, new.input, new.details, new.has_files,
    new.keep, old.caller, 0 AS place, greatest(coalesce(at, now + delay, now), now) AS due
  FROM found JOIN new USING (id) JOIN ${rows} AS old ON old.id = other CROSS JOIN clock
  WHERE found.replaces
), replaced AS (
  UPDATE ${rows} AS task SET version = task.version + 1, pool = swapped.pool,
    priority = swapped.priority, input = swapped.input, details = swapped.details,
    has_files = swapped.has_files, start_at = CASE WHEN due > ${SAME_NOW} THEN due END,
    expires_at = due + keep, sweep_at = due + keep,
    ${placeSql(rows)}
  FROM swapped
  WHERE task.id = other AND task.run = 0 AND task.status = 0 AND task.unique_key IS NOT NULL
    AND task.expires_at > ${SAME_NOW}
  RETURNING new_id, ${taskColumns('task')}
)`,
    outcomes: `
UNION ALL SELECT 'replaced', new_id, row_to_json(replaced)::text, 0, 0, 0 FROM replaced`,
  }
}

/**
 * Returns the SQL of the turn and of the due time of a replaced task. If the task may begin now, as
 * before, with the same pool and priority, it keeps its turn or stays held.
 */
function placeSql(rows: string): string {
  const stays = `due <= ${SAME_NOW} AND task.pool = swapped.pool AND task.priority = swapped.priority`
  return `turn = CASE WHEN due > ${SAME_NOW} OR (${stays} AND task.due_at = 'Infinity') THEN NULL
      WHEN ${stays} AND task.turn IS NOT NULL THEN task.turn
      ELSE ${turnSql(rows, 'swapped')} END,
    due_at = CASE WHEN ${stays} AND task.due_at = 'Infinity' THEN task.due_at ELSE due END`
}

function replacedTask({ other }: Row): StoredTask {
  return toTask(JSON.parse(other) as TaskRow)
}

function toJson(tasks: readonly NewTask[]): string {
  return JSON.stringify(tasks.map(toRecord))
}

function toRecord(task: NewTask) {
  const { start, limit, unique } = task
  return {
    id: task.id, birth: task.birth, key: task.key, owner: task.owner ?? '',
    caller: task.caller ?? '', limit_group: limit?.group, max: limit?.max, name: task.name,
    pool: task.pool, priority: task.priority, input: task.input.text,
    details: JSON.stringify(task.details), at: start && 'at' in start ? start.at : undefined,
    delay: start && 'delayMs' in start ? start.delayMs : undefined,
    keep: toLifetime(task.keepMs), has_files: task.hasFiles ?? false,
    unique_key: unique?.key, replaces: unique?.ifExists === 'replace',
  }
}
