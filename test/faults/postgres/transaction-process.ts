// A process that submits in transactions and ends itself: node transaction-process.ts <postgres url> <n>.
// It ends before the n-th statement of its transactions, counted from 1, or right after the first
// COMMIT if n is `commit`. It runs no tasks.
import { createTasks } from 'longhaul'
import { postgres } from 'longhaul/postgres'
import pg from 'pg'
import { invoice } from './invoice.js'

const [, , url = '', last = '1'] = process.argv
const pool = new pg.Pool({ connectionString: url })
const { engine, store } = postgres({ pool })
const tasks = createTasks({ engine, store, definitions: [invoice(pool)], worker: false })
const definition = tasks.definition('invoice')
if (!definition) throw new Error('there is no definition')
await engine.now()

let statements = 0
const client = await pool.connect()
const transaction = {
  query: (text: string, values: unknown[] = []) => {
    statements++
    if (statements >= Number(last)) process.kill(process.pid, 'SIGKILL')
    return client.query(text, values)
  },
}
for (let n = 0; ; n++) {
  const id = `${String(process.pid)}-${String(n)}`
  await transaction.query('BEGIN')
  if (n % 2 === 0) await transaction.query('INSERT INTO invoices VALUES ($1, $1)', [id])
  const task = await tasks.submit(definition, { id }, { transaction, owner: 'ann', ...n % 3 === 0 ? { id } : {} })
  if (n % 2 === 1) await transaction.query('INSERT INTO invoices VALUES ($1, $1)', [id])
  await transaction.query('UPDATE invoices SET task = $2 WHERE id = $1', [id, task.taskId])
  await transaction.query(n % 5 === 4 ? 'ROLLBACK' : 'COMMIT')
  if (last === 'commit') process.kill(process.pid, 'SIGKILL')
}
