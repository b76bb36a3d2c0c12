import { Json, type StoredTask } from 'longhaul/engine'
import type { SqliteDatabase } from '../../adapters/sqlite/client.js'
import { ModelTasks, type ModelRest, type ModelSettings, type Row } from './model-tasks.js'

/** A file that several processes share: a row for each task, and one for everything else. */
export class SmallFile {
  private tasks: ModelTasks
  /** The texts of the rows in the file. */
  private texts = new Map<string, string>()
  private version: unknown

  constructor(private readonly database: SqliteDatabase, private readonly settings: ModelSettings) {
    database.exec('PRAGMA journal_mode = WAL')
    database.exec('CREATE TABLE IF NOT EXISTS small_tasks (id TEXT PRIMARY KEY, row TEXT NOT NULL)')
    this.tasks = new ModelTasks(settings)
  }

  /** Applies a rule to the tasks in the file. Returns the ids of what it, or another process, has changed. */
  transact<T>(rule: (tasks: ModelTasks) => T): { readonly outcome: T, readonly changed: string[] } {
    const { database } = this
    database.exec('BEGIN IMMEDIATE')
    try {
      const foreign = this.load()
      const outcome = rule(this.tasks)
      const changed = [...foreign, ...this.save()]
      database.exec('COMMIT')
      return { outcome, changed }
    } catch (error) {
      this.version = undefined
      try { database.exec('ROLLBACK') } catch { /* SQLite has rolled back. */ }
      throw error
    }
  }

  /** Returns whether another process has written since the last transaction of this one. */
  hasForeignChange(): boolean {
    try {
      return this.dataVersion() !== this.version
    } catch {
      return false
    }
  }

  /** SQLite changes this number when another connection has written. */
  private dataVersion(): unknown {
    const [row] = this.database.prepare('PRAGMA data_version').all() as { readonly data_version: number }[]
    return row?.data_version
  }

  /** Reads everything if another process has written. Returns the ids of what it has changed. */
  private load(): string[] {
    const version = this.dataVersion()
    if (version === this.version) return []
    const before = this.texts
    this.tasks = new ModelTasks(this.settings)
    const rows = this.database.prepare('SELECT id, row FROM small_tasks').all() as SmallRow[]
    this.texts = new Map(rows.map(({ id, row }) => [id, row]))
    for (const [id, text] of this.texts) {
      if (id === REST) this.tasks.restore(JSON.parse(text, revive) as ModelRest)
      else this.tasks.rows.set(id, JSON.parse(text, revive) as Row)
    }
    this.version = version
    return differences(before, this.texts)
  }

  /** Writes what has changed. Returns its ids. */
  private save(): string[] {
    const { database } = this
    const before = this.texts
    const rows = [...this.tasks.rows, [REST, this.tasks.rest()] as const]
    this.texts = new Map(rows.map(([id, row]) => [id, JSON.stringify(row, replace)]))
    const changed = differences(before, this.texts)
    for (const id of changed) {
      const text = this.texts.get(id)
      if (text === undefined) database.prepare('DELETE FROM small_tasks WHERE id = ?').run(id)
      else database.prepare('INSERT OR REPLACE INTO small_tasks VALUES (?, ?)').run(id, text)
    }
    return changed
  }
}

interface SmallRow {
  readonly id: string
  readonly row: string
}

function differences(before: ReadonlyMap<string, string>, now: ReadonlyMap<string, string>): string[] {
  return [...new Set([...before.keys(), ...now.keys()])].filter((id) => before.get(id) !== now.get(id))
}

/** The row of everything else. No task has this id. */
const REST = ''
const JSON_TEXT = '\0json'

function replace(_name: string, value: unknown): unknown {
  return value instanceof Json ? { [JSON_TEXT]: value.text } : value
}

function revive(name: string, value: unknown): unknown {
  if (name === 'task' && Object(value).birth !== undefined) return { ...NO_VALUES, ...value as StoredTask }
  const text = (Object(value) as Readonly<Record<string, unknown>>)[JSON_TEXT]
  return typeof text === 'string' ? Json.fromText(text) : value
}

/** Properties that JSON leaves out. */
const NO_VALUES = {
  key: undefined, owner: undefined, caller: undefined, startAt: undefined, startedAt: undefined,
  runStartedAt: undefined, finishedAt: undefined, callbackAt: undefined, result: undefined,
}
