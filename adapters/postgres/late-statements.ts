import type { Query } from './connections.js'

/** Maximum number of statements that wait to be stopped. */
const MAX_LATE = 1000

/**
 * Stops backends that still run the statement that was late. The text is compared, because a pooler
 * gives its clients process ids of its own. The server cuts long texts.
 */
const STOP = `SELECT pg_cancel_backend(activity.pid)
FROM unnest($1::integer[], $2::text[]) AS late (pid, text)
JOIN pg_stat_activity AS activity ON activity.pid = late.pid
WHERE activity.state = 'active' AND activity.usename = current_user
  AND starts_with(late.text, activity.query)`

/** A statement whose connection was closed before its reply. */
interface LateStatement {
  readonly processId: number
  readonly text: string
}

/**
 * Stops late statements on the server. The server does not notice a closed connection while a
 * statement runs or waits for a lock. Such statements would pile up beyond the size of the pool,
 * until the server has no connections left. Sends one statement at a time.
 */
export class LateStatements {
  private late: LateStatement[] = []
  private isStopping = false

  /** @param query - runs a statement with a deadline */
  constructor(private readonly query: Query) {}

  /** Stops a statement soon. Failures are ignored, because the server may be out of reach. */
  stop(statement: LateStatement): void {
    if (this.late.length < MAX_LATE) this.late.push(statement)
    if (!this.isStopping) void this.stopAll()
  }

  private async stopAll(): Promise<void> {
    this.isStopping = true
    while (this.late.length > 0) {
      const { late } = this
      this.late = []
      const processIds = late.map(({ processId }) => processId)
      await this.query(STOP, [processIds, late.map(({ text }) => text)]).catch(() => undefined)
    }
    this.isStopping = false
  }
}
