import type { TaskIndex, Transaction } from 'longhaul/stores'

export async function standInIndex(pool: Transaction): Promise<TaskIndex> {
  await pool.query('CREATE TABLE IF NOT EXISTS checks (entry text PRIMARY KEY, due timestamptz NOT NULL)', [])
  const over = (client: Transaction): TaskIndex => ({
    shared: true,
    add: async (entry, afterMs) => {
      await client.query(`INSERT INTO checks VALUES ($1, clock_timestamp() + $2::float8 * interval '1 ms')
        ON CONFLICT (entry) DO UPDATE SET due = excluded.due`, [entry, afterMs])
    },
    remove: (entry) => { client.query('DELETE FROM checks WHERE entry = $1', [entry]).catch(() => undefined) },
    take: async (limit, againMs) => (await client.query(`UPDATE checks SET due = clock_timestamp() + $2::float8 * interval '1 ms'
      WHERE entry IN (SELECT entry FROM checks WHERE due <= clock_timestamp() ORDER BY due LIMIT $1 FOR UPDATE SKIP LOCKED) RETURNING entry`,
    [limit, againMs])).rows.map((row) => (row as { entry: string }).entry),
    restore: () => undefined,
    put: () => undefined,
    putSoon: () => undefined,
    drop: () => undefined,
    list: () => [],
    unlisted: () => ({ ids: [], isUrgent: false }),
    within: (transaction) => over(transaction),
  })
  return over(pool)
}
