// A status table by hand beside a queue on PostgreSQL, which answers polls.
import type { FastifyInstance } from 'fastify'
import type { Pool } from 'pg'

/** A table of tasks beside a queue. */
export class StatusTable {
  constructor(private readonly pool: Pool, private readonly name: string) {}

  async create(): Promise<void> {
    await this.pool.query(`CREATE TABLE IF NOT EXISTS ${this.name} (
      id uuid PRIMARY KEY, status text NOT NULL, result jsonb, created_at timestamptz NOT NULL DEFAULT now(), finished_at timestamptz)`)
      // The web process and the worker may create it at the same time.
      .catch(() => undefined)
  }

  async accept(id: string): Promise<void> {
    await this.pool.query(`INSERT INTO ${this.name} (id, status) VALUES ($1, 'processing')`, [id])
  }

  async start(id: string): Promise<void> {
    await this.pool.query(`UPDATE ${this.name} SET status = 'running' WHERE id = $1`, [id])
  }

  async finish(id: string, result: object): Promise<void> {
    await this.pool.query(`UPDATE ${this.name} SET status = 'completed', result = $2, finished_at = now() WHERE id = $1`, [id, JSON.stringify(result)])
  }

  /** Adds the status endpoint. */
  serve(app: FastifyInstance): void {
    app.get<{ Params: { id: string } }>('/tasks/:id', async (request, reply) => {
      const { rows } = await this.pool.query<Record<string, unknown>>(`SELECT * FROM ${this.name} WHERE id = $1`, [request.params.id])
      const [row] = rows
      if (!row) return reply.code(404).send({ error: 'There is no such task.' })
      const { id, status, result, created_at: createdAt, finished_at: finishedAt } = row
      return { taskId: id, status, ...(result === null ? {} : { result }), createdAt, finishedAt }
    })
  }
}
