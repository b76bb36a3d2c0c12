import type { FileShare, StoredTask } from '../../../src/engine/task.js'
import type { ShareLimits } from '../../../src/stores/share-limits.js'
import type { Query } from '../connections.js'
import { BATCH, expiredRows, ShareChecks, type SweepBatch } from '../expiry.js'
import { CLOCK, keptBytes, NOW, SAME_NOW, toTask, type TaskRow } from './rows.js'
import type { WorkerSql } from './worker-sql.js'

/** Memory of a row beside its strings, in bytes. An estimate. */
const OVERHEAD = 500
/** Number of tasks whose files are removed at the same time. */
const REMOVALS = 10

interface Evicted {
  readonly id: string
  readonly has_files: boolean
}

/** Limits what the final tasks of each caller keep. The oldest expire. */
export class CallerShares {
  private readonly rows: ShareChecks<Evicted>
  private readonly files: ShareChecks<Evicted>

  /** @param onEvicted - called with the ids of tasks that have expired early */
  constructor(
    query: Query, schema: string, private readonly limits: ShareLimits,
    onEvicted: (ids: readonly string[], hasFiles: boolean) => void,
  ) {
    const checks = (bytes: string, condition: string): ShareChecks<Evicted> => (
      new ShareChecks<Evicted>(query, surplusSql(schema, bytes, condition), (rows) => {
        onEvicted(rows.map(({ id }) => id), rows.some((row) => row.has_files))
      })
    )
    this.rows = checks(`${keptBytes('task')} + ${String(OVERHEAD)}`, 'true')
    this.files = checks('file_bytes', 'file_bytes > 0')
  }

  /** Starts a check for some of the tasks that have ended. Never throws. */
  count(caller: string, bytes: number, files: FileShare | undefined): void {
    this.rows.count(caller, bytes + OVERHEAD, this.limits)
    if (!files) return
    const limits = { maxEntries: Number.MAX_SAFE_INTEGER, maxBytes: files.max }
    this.files.count(caller, files.bytes, limits)
  }
}

/**
 * Returns a statement that lets the oldest final tasks of a caller ($1) expire that are beyond a
 * number ($2) or a total ($3), and never the newest.
 */
function surplusSql(schema: string, bytes: string, condition: string): string {
  const rows = `${schema}.task_rows`
  return `WITH ${CLOCK}, surplus AS MATERIALIZED (
  SELECT id FROM (
    SELECT id, row_number() OVER newest AS place, sum(${bytes}) OVER newest AS total
    FROM ${rows} AS task
    WHERE caller = $1 AND caller <> '' AND status >= 2 AND expires_at > ${SAME_NOW}
      AND ${condition}
    WINDOW newest AS (ORDER BY finished_at DESC, created_at DESC, id DESC)
  ) AS ranked
  WHERE place > 1 AND (place > $2::bigint OR total > $3::float8)
  ORDER BY place DESC LIMIT ${String(BATCH)}
), free AS MATERIALIZED (
  SELECT id FROM ${rows} WHERE id = ANY(ARRAY(SELECT id FROM surplus)) AND status >= 2
  ORDER BY id FOR UPDATE SKIP LOCKED
)
UPDATE ${rows} SET expires_at = ${SAME_NOW}, sweep_at = ${SAME_NOW}
WHERE id = ANY(ARRAY(SELECT id FROM free)) RETURNING id, has_files`
}

/**
 * Returns the batches that delete expired tasks without files, and the rows of callers that have
 * created nothing for an hour.
 */
export function expiredTasks(query: Query, schema: string): readonly SweepBatch[] {
  const batch = (table: string, key: string, expired: string): SweepBatch => (
    expiredRows(query, `${schema}.${table}`, key, expired)
  )
  return [
    batch('task_rows', 'id', `NOT has_files AND sweep_at <= (SELECT ${NOW})`),
    batch('task_callers', 'caller', 'changed_at < now() - interval \'1 hour\''),
  ]
}

/** Has the files of expired tasks removed, some tasks at a time. */
export class FileRemovals {
  private isRemoving = false

  /** @param onMore - called if more tasks may be left */
  constructor(
    private readonly query: Query, private readonly sql: WorkerSql,
    private readonly handler: (task: StoredTask) => Promise<boolean>,
    private readonly onMore: () => void,
  ) {}

  /** Removes the files of some tasks. Never rejects. */
  async remove(): Promise<void> {
    if (this.isRemoving) return
    this.isRemoving = true
    try {
      const rows = await this.query<TaskRow>(this.sql.takeRemovals, [REMOVALS])
      await Promise.all(rows.map(async (row) => {
        // The row may have made way for another task with its id.
        const id = row.id.slice(row.id.lastIndexOf('~') + 1)
        const isRemoved = await this.handler(toTask({ ...row, id })).catch(() => false)
        await this.query(this.sql.removed, [row.id, row.birth, isRemoved])
      }))
      if (rows.length === REMOVALS) this.onMore()
    } catch {
      // The next look finds them again.
    } finally {
      this.isRemoving = false
    }
  }
}
