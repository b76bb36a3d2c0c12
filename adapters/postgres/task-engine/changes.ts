import { StoreUnavailableError } from '../../../src/stores/store.js'
import {
  isVisibleChange, type Changed, type Expected, type StoredTask, type TaskChange, type TaskRef,
} from '../../../src/engine/task.js'
import type { Database } from '../database.js'
import { checkText, toLifetime } from '../sql.js'
import { TurnBatches } from '../turn-batches.js'
import { limitsSql, MAX_BATCH_LENGTH, MAX_MS } from './creates.js'
import type { TaskReads } from './reads.js'
import {
  CLOCK, keptBytes, newRows, SAME_NOW, STATUSES, taskColumns, toTask, type TaskRow,
} from './rows.js'

interface Request {
  readonly ref: TaskRef
  readonly expected: Expected
  readonly change: TaskChange
}

const COLUMNS = 'id text, birth text, of_version integer, of_lease text, of_callback integer, '
  + 'to_status smallint, new_group text, new_max bigint, new_details text, new_result text, '
  + 'delay float8, given_back integer, new_pool text, keep float8, callback float8, '
  + 'has_checkpoint boolean, new_checkpoint text, new_has_files boolean, new_file_bytes float8, '
  + 'seen integer, is_asked boolean'

interface Row extends TaskRow {
  /** Size of the stored data of the task, in bytes. */
  readonly bytes: number
}

/**
 * Changes tasks. The changes of one turn of the event loop share a statement. If the statement
 * skips a change, because the row is locked or the expectation does not hold, the change gets a
 * separate statement.
 */
export class Changes {
  private readonly sql: Readonly<Record<'gathered' | 'alone' | 'limited' | 'delete', string>>
  private readonly batches = new TurnBatches<Request, Row>(MAX_BATCH_LENGTH, async (requests) => (
    requests.length === 1 ? [] : this.query('gathered', requests)
  ))

  /**
   * @param onChanged - called after each change; `bytes` is the size of the stored data of the task
   */
  constructor(
    private readonly database: Database, private readonly reads: TaskReads,
    private readonly onChanged: (
      task: StoredTask, change: TaskChange, expected: Expected, bytes: number,
    ) => void,
  ) {
    const { schema } = database
    const rows = `${schema}.task_rows`
    const isMeant = `id = $1 AND birth = $2 AND version = $3 AND status >= 2 AND expires_at > ${SAME_NOW}`
    this.sql = {
      gathered: changeSql(schema, 'gathered'),
      alone: changeSql(schema, 'alone'),
      limited: changeSql(schema, 'limited'),
      delete: `WITH ${CLOCK}, expired AS (
  UPDATE ${rows} SET expires_at = ${SAME_NOW}, sweep_at = ${SAME_NOW}
  WHERE has_files AND ${isMeant} RETURNING 1
), deleted AS (
  DELETE FROM ${rows} WHERE NOT has_files AND ${isMeant} RETURNING 1
)
SELECT FROM expired UNION ALL SELECT FROM deleted`,
    }
  }

  async change(request: Request): Promise<Changed> {
    const { ref, change } = request
    checkText(ref.id, ref.birth, change.result, change.pool, change.checkpoint ?? undefined)
    if (change.limit !== undefined) return this.retry(request)
    const length = 500 + (change.result?.length ?? 0) + (change.checkpoint?.length ?? 0)
    const row = await this.batches.add(ref.id, request, length)
      ?? (await this.query('alone', [request]))[0]
    return row ? this.toChanged(row, request) : { outcome: 'conflict', task: await this.current(ref) }
  }

  /** Deletes a final task. If it has files, it expires, and its row waits for their removal. */
  async delete({ id, birth }: TaskRef, version: number): Promise<StoredTask | undefined> {
    checkText(id, birth)
    const rows = await this.database.query(this.sql.delete, [id, birth, version])
    return rows.length > 0 ? undefined : this.current({ id, birth })
  }

  private query<R = Row>(
    kind: 'gathered' | 'alone' | 'limited', requests: readonly Request[],
  ): Promise<readonly R[]> {
    return this.database.query<R>(this.sql[kind], [JSON.stringify(requests.map(toRecord))])
  }

  private async retry(request: Request): Promise<Changed> {
    const { ref, expected } = request
    const began = performance.now()
    while (performance.now() - began < MAX_MS) {
      const [row] = await this.query<Row & { readonly is_full: boolean }>('limited', [request])
      if (row?.is_full === true) return { outcome: 'caller_full' }
      if (row) return this.toChanged(row, request)
      const task = await this.current(ref)
      const mayRetry = task?.status === 'failed' || task?.status === 'cancelled'
      if (!mayRetry || !('version' in expected) || expected.version !== task.version) {
        return { outcome: 'conflict', task }
      }
    }
    throw new StoreUnavailableError('Too many calls create tasks of one caller')
  }

  private toChanged(row: Row, { change, expected }: Request): Changed {
    const task = toTask(row, change.details, change.result)
    this.onChanged(task, change, expected, Number(row.bytes))
    return { outcome: 'changed', task }
  }

  private async current({ id, birth }: TaskRef): Promise<StoredTask | undefined> {
    const task = await this.reads.read(id)
    return task?.birth === birth ? task : undefined
  }
}

function toRecord({ ref, expected, change }: Request) {
  const { status, details, keepMs, callbackMs, checkpoint, limit } = change
  const isAsked = status === 'input_required'
  return {
    id: ref.id, birth: ref.birth,
    of_version: 'version' in expected ? expected.version : undefined,
    of_lease: 'lease' in expected ? expected.lease : undefined,
    of_callback: 'callbackRun' in expected ? expected.callbackRun : undefined,
    to_status: isAsked ? 0 : status && STATUSES.indexOf(status), new_group: limit?.group, new_max: limit?.max,
    new_details: details && JSON.stringify(details), new_result: change.result,
    delay: toLifetime(change.delayMs ?? 0), given_back: change.isGivenBack === true || isAsked ? 1 : 0,
    new_pool: change.pool, keep: keepMs === undefined ? undefined : toLifetime(keepMs),
    // -1: no callback any more.
    callback: callbackMs === null ? -1 : callbackMs,
    has_checkpoint: checkpoint !== undefined, new_checkpoint: checkpoint,
    new_has_files: change.hasFiles, new_file_bytes: change.files?.bytes,
    seen: isVisibleChange(change) ? 1 : 0, is_asked: isAsked,
  }
}

/**
 * Returns a statement that makes changes whose expectation holds. `gathered` skips rows that are
 * locked, `alone` waits for one. `limited` makes one change under a limit of the caller.
 */
function changeSql(schema: string, kind: 'gathered' | 'alone' | 'limited'): string {
  const rows = `${schema}.task_rows`
  const update = `UPDATE ${rows} AS task SET
  status = coalesce(to_status, task.status), version = task.version + seen,
  attempt = task.attempt - given_back,
  asked_by = CASE WHEN is_asked THEN task.run WHEN to_status IS NULL THEN task.asked_by END,
  crashes = CASE WHEN to_status = 0 AND (given_back = 0 OR is_asked) OR new_checkpoint IS NOT NULL THEN 0
    ELSE task.crashes END,
  limit_group = CASE WHEN ${IS_RETRY} THEN new_group ELSE task.limit_group END,
  start_at = CASE WHEN ${IS_RETRY} THEN NULL ELSE task.start_at END,
  finished_at = CASE WHEN ${IS_RETRY} THEN NULL WHEN to_status >= 2 AND task.status < 2
    THEN ${SAME_NOW} ELSE task.finished_at END,
  expires_at = coalesce(${SAME_NOW} + keep, task.expires_at),
  sweep_at = coalesce(${SAME_NOW} + keep, task.sweep_at),
  due_at = CASE WHEN to_status = 0 THEN ${SAME_NOW} + delay
    WHEN new_pool <> task.pool AND task.due_at = 'Infinity' THEN task.held_due_at
    ELSE task.due_at END,
  turn = CASE WHEN to_status IS NULL THEN task.turn END,
  lease_until = CASE WHEN to_status IS NULL THEN task.lease_until END,
  callback_run = task.callback_run
    + (callback IS NOT NULL AND of_callback IS NULL)::integer,
  callback_at = CASE WHEN callback < 0 THEN NULL
    ELSE coalesce(${SAME_NOW} + callback, task.callback_at) END,
  pool = coalesce(new_pool, task.pool),
  unique_key = CASE WHEN to_status IS NULL OR to_status < 2 AND task.status < 2
    THEN task.unique_key END,
  has_files = coalesce(new_has_files, task.has_files),
  file_bytes = coalesce(new_file_bytes, task.file_bytes),
  details = coalesce(new_details, task.details),
  input = CASE WHEN to_status = 2 THEN NULL ELSE task.input END,
  checkpoint = CASE WHEN to_status = 2 THEN NULL WHEN has_checkpoint THEN new_checkpoint
    ELSE task.checkpoint END,
  result = CASE WHEN ${IS_RETRY} THEN NULL ELSE coalesce(new_result, task.result) END
FROM ${kind === 'gathered' ? 'new JOIN free USING (id)' : 'new'}
WHERE ${APPLIES}`
  const known = {
    details: 'CASE WHEN new_details IS NULL THEN task.details END',
    result: 'CASE WHEN new_result IS NULL THEN task.result END',
  }
  const returned = `RETURNING ${taskColumns('task', known)}, ${keptBytes('task')} AS bytes`
  const start = `WITH ${CLOCK}, ${newRows(COLUMNS)}`
  if (kind === 'alone') return `${start} ${update} ${returned}`
  if (kind === 'gathered') {
    return `${start}, free AS MATERIALIZED (
  SELECT id FROM ${rows} WHERE id = ANY(ARRAY(SELECT id FROM new)) ORDER BY id FOR UPDATE SKIP LOCKED
) ${update} ${returned}`
  }
  return `${start}, wanted AS (
  SELECT task.caller, new_group AS limit_group, new_max AS max FROM ${rows} AS task, new
  WHERE ${IS_RETRY} AND ${APPLIES}
), ${limitsSql(schema, false)}, updated AS (
  ${update} AND (NOT EXISTS (SELECT FROM groups) OR task.caller IN (SELECT caller FROM valid))
  ${returned}
)
SELECT updated.*, room <= 0 AS is_full FROM updated FULL JOIN groups ON true
WHERE updated.id IS NOT NULL OR room <= 0`
}

const APPLIES = `task.id = new.id AND task.birth = new.birth AND task.expires_at > ${SAME_NOW}
  AND (of_version IS NULL OR task.version = of_version)
  AND (of_lease IS NULL OR task.taken_by = of_lease AND task.status = 1)
  AND (of_callback IS NULL OR task.callback_run = of_callback AND task.status >= 2)
  AND NOT coalesce(to_status = 0 AND task.status = 2, false)`
const IS_RETRY = '(to_status = 0 AND task.status >= 2)'
