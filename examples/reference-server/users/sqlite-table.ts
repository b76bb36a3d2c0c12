import type { SqliteStatement, SqliteValue } from 'longhaul/sqlite'
import type { OpenSqlite } from '../sqlite-file.js'
import type { Table } from './memory-table.js'
import { HIGHEST_OWN_ID } from './repository.js'
import { emailKey, type User } from './user.js'

/** Creates the tables and the initial users unless they exist. Call it in a transaction. */
export function createTables(database: OpenSqlite, users: readonly User[]): void {
  if (database.prepare("SELECT 1 FROM sqlite_master WHERE name = 'reference_users'").all().length > 0) return
  database.exec(`
    CREATE TABLE reference_users (id INTEGER PRIMARY KEY, name TEXT NOT NULL, email TEXT NOT NULL, email_key TEXT NOT NULL UNIQUE, role TEXT NOT NULL);
    CREATE TABLE reference_ids (next INTEGER NOT NULL);
    INSERT INTO reference_ids VALUES (1);
    CREATE TABLE reference_imports (task TEXT PRIMARY KEY, cursor TEXT NOT NULL, changed_at REAL NOT NULL)`)
  const table = new SqliteTable(database)
  for (const user of users) table.put(user)
}

/** The users in a file of SQLite, through one connection. Whoever changes them begins and ends the transaction. */
export class SqliteTable implements Table {
  readonly #statements = new Map<string, SqliteStatement>()
  readonly #database: OpenSqlite

  constructor(database: OpenSqlite) {
    this.#database = database
  }

  get(id: number): User | undefined {
    return this.#all<User>('SELECT id, name, email, role FROM reference_users WHERE id = ?', id).map(toUser)[0]
  }

  idOf(email: string): number | undefined {
    return this.#all<User>('SELECT id FROM reference_users WHERE email_key = ?', emailKey(email))[0]?.id
  }

  put({ id, name, email, role }: User): void {
    if (id < HIGHEST_OWN_ID) this.#run('UPDATE reference_ids SET next = ? WHERE next <= ?', id + 1, id)
    this.#run(
      `INSERT INTO reference_users (id, name, email, email_key, role) VALUES (?, ?, ?, ?, ?) ON CONFLICT (id) DO UPDATE
       SET name = excluded.name, email = excluded.email, email_key = excluded.email_key, role = excluded.role`,
      id, name, email, emailKey(email), role)
  }

  remove(id: number): boolean {
    return this.#all('DELETE FROM reference_users WHERE id = ? RETURNING id', id).length > 0
  }

  newId(): number {
    const [row] = this.#all<{ readonly id: number }>('UPDATE reference_ids SET next = next + 1 RETURNING next - 1 AS id')
    if (row === undefined) throw new Error('The table of ids is empty')
    return row.id
  }

  order(): readonly number[] {
    return this.#all<User>('SELECT id FROM reference_users ORDER BY id').map(({ id }) => id)
  }

  /** Returns users by position, and the number of all. One statement sees one state. */
  page(start: number, limit: number): { readonly items: User[], readonly total: number } {
    const rows = this.#all<User & { readonly total: number }>(
      `SELECT total, u.id, u.name, u.email, u.role FROM (SELECT count(*) AS total FROM reference_users)
       LEFT JOIN (SELECT * FROM reference_users ORDER BY id LIMIT ? OFFSET ?) u ON true ORDER BY u.id`, limit, start)
    return { items: rows.filter(({ id }) => (id as number | null) !== null).map(toUser), total: rows[0]?.total ?? 0 }
  }

  /** Returns users with higher ids, or those of them with this role, from the lowest. */
  following(id: number, limit: number, role?: string): User[] {
    return this.#all<User>(
      'SELECT id, name, email, role FROM reference_users WHERE id > ? AND role = coalesce(?, role) ORDER BY id LIMIT ?', id, role ?? null, limit).map(toUser)
  }

  cursor(task: string): string | undefined {
    return this.#all<{ readonly cursor: string }>('SELECT cursor FROM reference_imports WHERE task = ?', task)[0]?.cursor
  }

  setCursor(task: string, cursor: string, now: number): void {
    this.#run('INSERT INTO reference_imports VALUES (?, ?, ?) ON CONFLICT (task) DO UPDATE SET cursor = excluded.cursor', task, cursor, now)
  }

  removeCursors(before: number): void {
    this.#run('DELETE FROM reference_imports WHERE changed_at < ?', before)
  }

  #all<Row>(sql: string, ...values: SqliteValue[]): Row[] {
    return this.#prepared(sql).all(...values) as Row[]
  }

  #run(sql: string, ...values: SqliteValue[]): void {
    this.#prepared(sql).run(...values)
  }

  #prepared(sql: string): SqliteStatement {
    const statement = this.#statements.get(sql) ?? this.#database.prepare(sql)
    this.#statements.set(sql, statement)
    return statement
  }
}

/** Copies a row, whose prototype and further columns differ between drivers. */
function toUser({ id, name, email, role }: User): User {
  return { id, name, email, role }
}
