import type { Check } from '../../../src/stores/index-writes.js'
import type { ListedTask } from '../../../src/stores/task-index.js'
import type { Database } from '../database.js'
import { expiry, slot, toLifetime } from '../lifetime.js'
import type { NewEntry } from '../entries.js'
import { TurnBatches } from '../turn-batches.js'
import { putSql, putValues } from './put-sql.js'

/** Maximum size of the values in one statement, in UTF-16 units. A larger value travels alone. */
const MAX_BATCH_LENGTH = 262_144

/**
 * The first writes of tasks: records under new keys, their checks and their list entries. Those of
 * one turn of the event loop are one statement, so an accepted task costs one commit, or a part of
 * one. Nobody else knows the keys, so the statement waits for no lock of another transaction.
 *
 * The store and the task index of one engine share an instance.
 */
export class FirstWrites {
  private readonly text: string
  private readonly batches = new TurnBatches(() => new Writes(), (writes) => this.send(writes))
  /** Statements that are under way. */
  private readonly writing = new Set<Promise<unknown>>()

  constructor(private readonly database: Database) {
    this.text = firstWritesSql(database.schema)
  }

  /**
   * Creates an entry under a key that is new and random. Resolves to `false` if there is an entry
   * of that key already, such as the same one, written before the connection was lost.
   */
  async create(entry: NewEntry): Promise<boolean> {
    const ttlMs = toLifetime(entry.ttlMs)
    const { key, value } = entry
    // A statement can write each key once.
    const { content: writes, sent } = this.batches.open(({ entries, length }) => (
      entries.has(key) || length + value.length > MAX_BATCH_LENGTH
    ))
    writes.entries.set(key, { ...entry, ttlMs })
    writes.length += value.length
    return (await sent).has(key)
  }

  /** Adds a check. Replaces an earlier time. */
  async add(check: Check): Promise<void> {
    const { content: { checks }, sent } = this.batches.open()
    checks.set(check.entry, check)
    await sent
  }

  /** Puts the first version of a task into the lists. */
  async put(task: ListedTask): Promise<void> {
    const { content: { tasks }, sent } = this.batches.open()
    const other = tasks.get(task.id)
    if (!other || other.createdAt <= task.createdAt) tasks.set(task.id, task)
    await sent
  }

  /** Resolves once all writes so far were written, or have failed. */
  async settle(): Promise<void> {
    this.batches.send()
    await Promise.allSettled(this.writing)
  }

  private send(writes: Writes): Promise<ReadonlySet<string>> {
    const written = this.write(writes)
    const settled = written.catch(() => undefined).finally(() => { this.writing.delete(settled) })
    this.writing.add(settled)
    return written
  }

  /** Returns the keys of the entries that were created. */
  private async write(writes: Writes): Promise<ReadonlySet<string>> {
    const entries = [...writes.entries.values()]
    const checks = [...writes.checks.values()]
    const rows = await this.database.repeated<{ readonly key: string }>(this.text, [
      entries.map(({ key }) => key), entries.map(({ value }) => value),
      entries.map(({ revision }) => revision), entries.map(({ ttlMs }) => ttlMs),
      checks.map(({ entry }) => entry), checks.map(({ afterMs }) => afterMs),
      ...putValues([...writes.tasks.values()]),
    ])
    return new Set(rows.map(({ key }) => key))
  }
}

/** Writes that are sent together. */
class Writes {
  readonly entries = new Map<string, NewEntry>()
  readonly checks = new Map<string, Check>()
  /** By id: an id has one row. */
  readonly tasks = new Map<string, ListedTask>()
  /** Length of the values of the entries. */
  length = 0
}

/** Returns the statement that writes a batch and returns the keys of the entries it created. */
function firstWritesSql(schema: string): string {
  return `WITH created AS (
  INSERT INTO ${schema}.entries AS old (key, value, revision, expires_at, sweep_slot)
  SELECT key, value, revision, ${expiry('ms')}, ${slot(expiry('ms'))}
  FROM unnest($1::text[], $2::text[], $3::text[], $4::float8[]) AS new (key, value, revision, ms)
  ORDER BY key
  ON CONFLICT (key) DO NOTHING RETURNING key
), checks AS (
  INSERT INTO ${schema}.task_checks (entry, due_at)
  SELECT entry, ${expiry('ms')} FROM unnest($5::text[], $6::float8[]) AS added (entry, ms)
  ORDER BY entry
  ON CONFLICT (entry) DO UPDATE SET due_at = excluded.due_at
), listed AS (
  ${putSql(`${schema}.tasks`, 7)}
)
SELECT key FROM created`
}
