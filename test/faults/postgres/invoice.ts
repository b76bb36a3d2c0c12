import { defineTask } from 'longhaul'
import type pg from 'pg'

/** A task that belongs to a row of the application, and notes there that it has run. */
export function invoice(pool: pg.Pool) {
  return defineTask({
    name: 'invoice',
    attempts: 20,
    backoff: { type: 'fixed', delayMs: 200 },
    run: async ({ id }: { id: string }, { taskId }) => {
      const { rows } = await pool.query<{ task: string }>(
        'UPDATE invoices SET done = true WHERE id = $1 RETURNING task',
        [id],
      )
      if (rows[0]?.task !== taskId) throw new Error(`task ${taskId} runs without its row`)
    },
  })
}
