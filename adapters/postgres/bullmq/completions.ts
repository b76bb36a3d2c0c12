import { TurnBatches } from '../turn-batches.js'
import type { JobDatabase } from './job-database.js'
import { completionSql } from './completion-sql.js'

/** Maximum number of jobs in one statement. */
const MAX_BATCH = 500

/** A job whose run has succeeded. */
export interface EndedJob {
  readonly id: string
  /** Token of its lock. */
  readonly token: string
  /** `true` if the worker takes another job in its place. */
  readonly wantsNext: boolean
}

/** Row of an ended job: its outcome, and the columns of the next job if there is one. */
export interface Completion {
  readonly ended_id: string
  /** `false` if the job is locked by another transaction, or is not the worker's any more. */
  readonly is_removed: boolean
  /** `true` if only BullMQ's own function decides which job is next. */
  readonly is_special: boolean
  /** Milliseconds until the first delayed job is due. `null`: there is none. */
  readonly next_in_ms: number | null
  /** Id of the next job. `null`: there is none. */
  readonly id: string | null
}

/**
 * Removes jobs whose runs have succeeded, and takes the next ones. Those of one turn of the event
 * loop are one statement. BullMQ's own function takes some twenty steps and one commit for each.
 */
export class Completions {
  private readonly batches = new TurnBatches(
    () => new Map<string, EndedJob>(), (jobs) => this.write([...jobs.values()]),
  )

  /** @param lockMs - time for which the next jobs are locked, in milliseconds */
  constructor(
    private readonly database: JobDatabase, private readonly queue: string,
    private readonly lockMs: number,
  ) {}

  /** Removes a job, and takes the next one if it `wantsNext`. */
  async complete(job: EndedJob): Promise<Completion | undefined> {
    // A worker that has lost a lock may end two runs of a job. They have different tokens.
    const { content: jobs, sent } = this.batches.open((open) => (
      open.size >= MAX_BATCH || open.has(job.id)
    ))
    jobs.set(job.id, job)
    return (await sent).get(job.id)
  }

  private async write(jobs: readonly EndedJob[]): Promise<ReadonlyMap<string, Completion>> {
    const rows = await this.database.query<Completion>(completionSql, [
      this.queue, jobs.map(({ id }) => id), jobs.map(({ token }) => token),
      jobs.map(({ wantsNext }) => wantsNext), this.lockMs,
    ])
    return new Map(rows.map((row) => [row.ended_id, row]))
  }
}
