import { httpError, isHttpError } from 'longhaul'
import type { Call, PageRequest, Update } from 'longhaul/resources'
import { sqlState, UNIQUE_VIOLATION, type Database, type Row, type Sql } from './database.js'
import { emailTaken, HIGHEST_OWN_ID, type CountedPage, type ImportCursors, type Outcome, type Users } from './repository.js'
import { emailKey, type User, type UserChange, type UserDraft } from './user.js'

const FIELDS = 'u.id, u.name, u.email, u.role'
const PIECE = 500

/** Users in a PostgreSQL, which several processes share. */
export class SqlUsers implements Users {
  readonly shared = true
  readonly imports: ImportCursors = {
    read: async (taskId) => {
      const [row] = await this.#sql.query('SELECT cursor FROM longhaul_user_imports WHERE task_id = $1 FOR UPDATE', [taskId])
      return row?.['cursor'] as string | undefined
    },
    replace: (taskId, cursor, previous) => this.#alone(async () => {
      if (previous === undefined) await this.#sql.query("DELETE FROM longhaul_user_imports WHERE changed_at < now() - interval '30 days'")
      const rows = await this.#sql.query(
        `INSERT INTO longhaul_user_imports AS i (task_id, cursor) VALUES ($1, $2) ON CONFLICT (task_id)
         DO UPDATE SET cursor = $2, changed_at = now() WHERE i.cursor IS NOT DISTINCT FROM $3::text RETURNING task_id`, [taskId, cursor, previous ?? null])
      // This process was suspended, and another one has continued the import.
      if (rows.length === 0) throw httpError('attempt_replaced')
    }),
  }
  readonly #db: Database
  readonly #sql: Sql
  /** Inside a transaction: the end of the last statement that must run alone. */
  #turn: Promise<unknown> | undefined

  constructor(db: Database, inside?: Sql) {
    this.#db = db
    this.#sql = inside ?? db
    this.#turn = inside && Promise.resolve()
  }

  async list({ start, limit }: PageRequest): Promise<CountedPage> {
    const rows = await this.#sql.query(
      // One statement sees one state, and the row without a user tells the total also past the end.
      `SELECT t.total, ${FIELDS} FROM (SELECT count(*) AS total FROM longhaul_users) t
       LEFT JOIN LATERAL (SELECT * FROM longhaul_users ORDER BY id LIMIT $1 OFFSET $2) u ON true ORDER BY u.id`, [limit, start])
    return { items: rows.flatMap((row) => (row['id'] === null ? [] : userOf(row))), total: Number(rows[0]?.['total'] ?? 0) }
  }

  async get(id: number): Promise<User | undefined> {
    // A transaction may decide by the rows that it has read, so they are locked.
    const lock = this.#turn ? 'FOR UPDATE' : ''
    const [row] = await this.#sql.query(`SELECT ${FIELDS} FROM longhaul_users u WHERE id = $1 ${lock}`, [id])
    return row && userOf(row)
  }

  async create(draft: UserDraft, { signal }: Call): Promise<User> {
    const [outcome] = await this.#alone(() => this.#createAll([draft], signal))
    if (outcome === undefined || isHttpError(outcome)) throw outcome ?? emailTaken()
    return outcome
  }

  async replace(id: number, { name = '', email, role = 'viewer' }: UserDraft): Promise<{ readonly item: User, readonly created: boolean }> {
    return this.#unlessTaken(async () => {
      const values = [id, name, email, emailKey(email), role]
      const [row] = await this.#sql.query(
        // A row that existed before was changed by an earlier statement, so xmax distinguishes the two.
        `INSERT INTO longhaul_users AS u (id, name, email, email_key, role) VALUES ($1, $2, $3, $4, $5)
         ON CONFLICT (id) DO UPDATE SET name = $2, email = $3, email_key = $4, role = $5 RETURNING ${FIELDS}, (xmax = 0) AS created`, values)
      if (row === undefined) throw new Error('An INSERT gave no row')
      const created = row['created'] === true
      if (created && id < HIGHEST_OWN_ID) await this.#moveOn(id)
      return { item: userOf(row), created }
    })
  }

  async update(id: number, change: UserChange): Promise<User | undefined> {
    return this.#unlessTaken(async () => (await this.#updateAll([{ id, change }]))[0])
  }

  async delete(id: number): Promise<boolean> {
    return await this.#alone(async () => (await this.#sql.query('DELETE FROM longhaul_users WHERE id = $1 RETURNING id', [id])).length > 0)
  }

  /** All statements are in one transaction, so that an error before its commit means that nothing was written. */
  async createMany(drafts: readonly UserDraft[], call: Call): Promise<readonly Outcome<User>[]> {
    if (this.#turn) return await this.#alone(() => this.#createAll(drafts, call.signal))
    return await this.transaction(async (inside) => await inside.createMany(drafts, call), call)
  }

  async #createAll(drafts: readonly UserDraft[], signal: AbortSignal): Promise<Outcome<User>[]> {
    const outcomes: (Outcome<User> | undefined)[] = drafts.map(() => undefined)
    let open = drafts.map((_, at) => at)
    while (open.length > 0) {
      signal.throwIfAborted()
      const of = <K extends keyof UserDraft>(name: K) => open.map((at) => drafts[at]?.[name])
      const keys = open.map((at) => emailKey(drafts[at]?.email ?? ''))
      const rows = await this.#sql.query(
        // Taken emails are skipped without an error, and so are later duplicates in one batch.
        `INSERT INTO longhaul_users AS u (name, email, email_key, role)
         SELECT coalesce(name, ''), email, email_key, coalesce(role, 'viewer') FROM unnest($1::text[], $2::text[], $3::text[], $4::text[])
         WITH ORDINALITY AS v (name, email, email_key, role, at) ORDER BY at ON CONFLICT DO NOTHING RETURNING ${FIELDS}`,
        [of('name'), of('email'), keys, of('role')])
      const written = new Map(rows.map((row) => [emailKey(userOf(row).email), userOf(row)]))
      open.forEach((at, index) => {
        const key = keys[index] ?? ''
        outcomes[at] = written.get(key)
        written.delete(key)
      })
      const left = open.filter((at) => outcomes[at] === undefined)
      const taken = await this.#taken(left.map((at) => emailKey(drafts[at]?.email ?? '')))
      for (const at of left) if (taken.has(emailKey(drafts[at]?.email ?? ''))) outcomes[at] = emailTaken()
      // Neither written nor taken: somebody has chosen the id, or the other user was deleted meanwhile.
      open = left.filter((at) => outcomes[at] === undefined)
    }
    return outcomes as Outcome<User>[]
  }

  async updateMany(updates: readonly Update<number, UserChange>[], { signal }: Call): Promise<readonly (Outcome<User> | undefined)[]> {
    const alone = updates.some(({ change }) => change.email !== undefined) || new Set(updates.map(({ id }) => id)).size < updates.length
    if (!alone) return await this.#alone(() => this.#updateAll(updates))
    const outcomes: (Outcome<User> | undefined)[] = []
    for (const { id, change } of updates) {
      signal.throwIfAborted()
      outcomes.push(await this.update(id, change).catch((error: unknown) => {
        if (isHttpError(error) && error.status === 409) return error
        throw error
      }))
    }
    return outcomes
  }

  async transaction<Result>(work: (inside: Users) => Promise<Result>, { signal }: Call): Promise<Result> {
    signal.throwIfAborted()
    const begin = (sql: Sql): Promise<Result> => work(new SqlUsers(this.#db, sql))
    return await (this.#turn ? this.#alone(() => this.#savepoint(() => begin(this.#sql))) : this.#db.transaction(begin))
  }

  async* all(role?: string): AsyncGenerator<User[], void, undefined> {
    let last = -1
    for (;;) {
      const rows = await this.#sql.query(
        `SELECT ${FIELDS} FROM longhaul_users u WHERE id > $1 AND ($2::text IS NULL OR role = $2) ORDER BY id LIMIT ${PIECE}`, [last, role ?? null])
      const users = rows.map(userOf)
      if (users.length > 0) yield users
      if (users.length < PIECE) return
      last = users.at(-1)?.id ?? last
    }
  }

  close(): Promise<void> {
    return this.#db.close()
  }

  /** Each id once. */
  async #updateAll(updates: readonly Update<number, UserChange>[]): Promise<(User | undefined)[]> {
    const of = <K extends keyof UserChange>(name: K) => updates.map(({ change }) => change[name])
    const emails = of('email')
    const rows = await this.#sql.query(
      // Locked in the order of ids, so that two batches cannot deadlock.
      `WITH locked AS (SELECT id FROM longhaul_users WHERE id = ANY($1::bigint[]) ORDER BY id FOR UPDATE)
       UPDATE longhaul_users u SET name = coalesce(v.name, u.name), email = coalesce(v.email, u.email),
         email_key = coalesce(v.email_key, u.email_key), role = coalesce(v.role, u.role)
       FROM unnest($1::bigint[], $2::text[], $3::text[], $4::text[], $5::text[]) AS v (id, name, email, email_key, role)
       JOIN locked ON locked.id = v.id WHERE u.id = v.id RETURNING ${FIELDS}`,
      [updates.map(({ id }) => id), of('name'), emails, emails.map((email) => email && emailKey(email)), of('role')])
    const byId = new Map(rows.map((row) => [userOf(row).id, userOf(row)]))
    return updates.map(({ id }) => byId.get(id))
  }

  async #taken(keys: readonly string[]): Promise<Set<unknown>> {
    if (keys.length === 0) return new Set()
    const rows = await this.#sql.query('SELECT email_key FROM longhaul_users WHERE email_key = ANY($1::text[])', [keys])
    return new Set(rows.map((row) => row['email_key']))
  }

  /** Skips ids that clients have chosen. A concurrent write may miss one, and `createMany` then retries. */
  async #moveOn(id: number): Promise<void> {
    await this.#sql.query(
      'SELECT setval(\'longhaul_users_id_seq\', $1::bigint) FROM longhaul_users_id_seq WHERE last_value < $1::bigint', [id])
  }

  /** A violation would end a transaction, so a savepoint restores the state before `write`. */
  async #unlessTaken<T>(write: () => Promise<T>): Promise<T> {
    const tried = this.#alone(() => (this.#turn ? this.#savepoint(write) : write()))
    return await tried.catch((error: unknown) => {
      throw sqlState(error) === UNIQUE_VIOLATION ? emailTaken() : error
    })
  }

  async #savepoint<T>(write: () => Promise<T>): Promise<T> {
    await this.#sql.query('SAVEPOINT before_write')
    try {
      const result = await write()
      await this.#sql.query('RELEASE SAVEPOINT before_write')
      return result
    } catch (error) {
      await this.#sql.query('ROLLBACK TO SAVEPOINT before_write')
      throw error
    }
  }

  /** Serialises the writes of one transaction, because concurrent ones would share savepoints. */
  #alone<T>(work: () => Promise<T>): Promise<T> {
    if (!this.#turn) return work()
    const done = this.#turn.then(work)
    this.#turn = done.catch(() => {})
    return done
  }
}

function userOf({ id, name, email, role }: Row): User {
  return { id: Number(id), name, email, role } as User
}
