import { sqlState } from '../faults.js'
import { MAX_TTL_MS } from '../lifetime.js'
import { TurnBatches } from '../turn-batches.js'
import type { JobDatabase } from './job-database.js'

/** Maximum size of the data in one statement, in UTF-16 units. Larger data travels alone. */
const MAX_BATCH_LENGTH = 262_144

/** Maximum value of an `integer` of PostgreSQL. More attempts than that are for ever. */
const MAX_INTEGER = 2_147_483_647

/** Adds jobs as BullMQ's function `add_job` does, without its events. */
const ADD = `INSERT INTO {schema}.job (
  queue, id, seq, name, state, data, opts, delay_ms, max_attempts, priority, added_at_ms,
  process_at_ms
) SELECT $1, id, nextval('{schema}.job_seq'), name,
  CASE WHEN delay > 0 THEN 'delayed' ELSE 'waiting' END::{schema}.job_state,
  data::jsonb, opts::jsonb, delay, attempts, priority, now_ms,
  CASE WHEN delay > 0 THEN now_ms + delay END
FROM (SELECT (extract(epoch FROM clock_timestamp()) * 1000)::bigint AS now_ms) AS clock,
  unnest(
    $2::text[], $3::text[], $4::text[], $5::text[], $6::bigint[], $7::integer[], $8::integer[]
  ) WITH ORDINALITY AS added (id, name, data, opts, delay, attempts, priority, place)
ORDER BY place
ON CONFLICT (queue, id) DO NOTHING`

/** A job to add. */
export interface NewJob {
  readonly id: string
  readonly name: string
  /** JSON text. */
  readonly data: string
  /** JSON text. */
  readonly options: string
  readonly delayMs: number
  readonly attempts: number
  readonly priority: number
}

/**
 * Adds the jobs of one turn of the event loop in one statement. If PostgreSQL refuses the values of
 * one, each is added alone, so that it harms no other.
 */
export class JobWrites {
  private readonly batches = new TurnBatches(() => new Jobs(), ({ items }) => this.write(items))

  constructor(private readonly database: JobDatabase, private readonly queue: string) {}

  /** Adds a job, if there is none of its id. */
  async add(job: NewJob): Promise<void> {
    const { content: jobs, sent } = this.batches.open(({ length }) => (
      length + job.data.length > MAX_BATCH_LENGTH
    ))
    jobs.items.push(job)
    jobs.length += job.data.length
    try {
      await sent
    } catch (error) {
      if (jobs.items.length === 1 || !isRefusedValue(error)) throw error
      await this.write([job])
    }
  }

  private write(jobs: readonly NewJob[]): Promise<unknown> {
    return this.database.query(ADD, [
      this.queue, jobs.map(({ id }) => id), jobs.map(({ name }) => name),
      jobs.map(({ data }) => data), jobs.map(({ options }) => options),
      jobs.map(({ delayMs }) => Math.min(delayMs, MAX_TTL_MS)),
      jobs.map(({ attempts }) => Math.min(attempts, MAX_INTEGER)),
      jobs.map(({ priority }) => priority),
    ])
  }
}

/**
 * Returns whether PostgreSQL has refused a value: its type (22…), or its length in an index (54…).
 */
function isRefusedValue(error: unknown): boolean {
  return /^(?:22|54)/.test(sqlState(error) ?? sqlState((error as Error).cause) ?? '')
}

/** Jobs that are added together. */
class Jobs {
  readonly items: NewJob[] = []
  /** Length of their data. */
  length = 0
}
