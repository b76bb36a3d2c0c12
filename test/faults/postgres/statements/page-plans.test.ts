// The plan of a page on PostgreSQL: a range of an index for each list, whatever the number of tasks and the filter.
import assert from 'node:assert/strict'
import { after, before, describe, test } from 'node:test'
import { migrate } from 'longhaul/postgres'
import pg from 'pg'
import type { Query } from '../../../../adapters/postgres/connections.js'
import { TaskReads } from '../../../../adapters/postgres/task-engine/reads.js'
import type { TaskQuery } from '../../../../src/engine/engine.js'
import { postgresForFile } from '../../../servers/postgres-server.js'

const server = await postgresForFile()
const pool = new pg.Pool({ connectionString: server.url })
after(() => pool.end())
await migrate(pool)

/** Statuses in the table: `scheduled` is `queued` with a later start. */
const STATUSES = 5
const NAMES = 4
const LIMIT = 50

/** Returns the plan of a page. */
async function planOf(query: TaskQuery): Promise<string> {
  const lines: string[] = []
  const explain: Query = async (text, values = []) => {
    const { rows } = await pool.query<Record<'QUERY PLAN', string>>(
      `EXPLAIN (ANALYZE, TIMING OFF) ${text}`, [...values],
    )
    lines.push(...rows.map((row) => row['QUERY PLAN']))
    return []
  }
  await new TaskReads('"longhaul"', explain).page(query)
  return lines.join('\n')
}

/** Fills the lists with tasks of 1000 owners. Their rows are not in the order of an index. */
async function fill(tasks: number): Promise<void> {
  await server.query('TRUNCATE longhaul.task_rows')
  await server.query(`INSERT INTO longhaul.task_rows (id, birth, owner, caller, name, pool, priority, status,
    created_at, expires_at, sweep_at, due_at, has_files, file_bytes, details)
    SELECT md5(n::text), 'b', 'owner-' || n % 1000, 'tenant ' || n % 1000, 'name-' || n % ${String(NAMES)}, 'default', 0,
      n / 7 % ${String(STATUSES)}, n, 1e14, 1e14, n, false, 0, '{}'
    FROM generate_series(1, ${String(tasks)}) AS n`)
  await server.query('ANALYZE longhaul.task_rows')
}

const filters: Record<string, (tasks: number) => Partial<TaskQuery>> = {
  'without a filter': () => ({}),
  'in the middle': (tasks) => ({ after: { createdAt: tasks / 2, id: 'a' } }),
  'of one status': () => ({ statuses: ['failed'] }),
  'of one name': () => ({ names: ['name-3'] }),
  'of a time': (tasks) => ({ from: tasks * 0.3, to: tasks * 0.7 }),
}

const SCOPES: Record<string, TaskQuery['of']> = {
  'all owners': 'all', 'one owner': { owner: 'owner-7' }, 'one tenant': { caller: 'tenant 7' },
}

for (const tasks of [1000, 10_000, 50_000]) describe(`a page of ${String(tasks)} tasks`, () => {
  before(() => fill(tasks))
  for (const [what, filter] of Object.entries(filters)) for (const [whose, of] of Object.entries(SCOPES)) {
    for (const order of ['newest', 'oldest'] as const) {
      test(`reads no table ${what}, of ${whose}, ${order} first`, async () => {
        const plan = await planOf({ of, order, limit: LIMIT, ...filter(tasks) })
        assert.doesNotMatch(plan, /Seq Scan|JIT/)
        // The planner may sort the few tasks of one owner.
        if (of === 'all') {
          assert.doesNotMatch(plan, /Bitmap/)
          // The lists are merged, and none is sorted.
          assert.equal(plan.match(/Sort Key: task_rows\.created_at/g)?.length, 1, plan)
        }
        const read = /Scan.* on task_rows +\(.*actual rows=(\d+)(?:\.\d+)? loops=(\d+)/.exec(plan)
        assert.ok(read, plan)
        assert.ok(Number(read[1]) <= LIMIT && Number(read[2]) <= STATUSES * NAMES, plan)
      })
    }
  }
})
