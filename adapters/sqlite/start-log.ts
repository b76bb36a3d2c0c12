import type { StartsPer } from '../../src/engine/engine.js'
import type { Database } from './database.js'

/** Times of the newest begins of runs, in pools with a rate. All methods but `delay` run in a transaction. */
export class StartLog {
  constructor(private readonly database: Database) {}

  /** Returns the delay until a run may begin, in milliseconds. */
  delay(pool: string, rate: StartsPer): number {
    return this.delayOf(pool, rate, this.last(pool) - rate.count + 1)
  }

  /** Returns how many runs may begin now, at most `wanted`. */
  room(pool: string, rate: StartsPer, wanted: number): number {
    this.obeyClock(pool)
    const oldest = this.last(pool) - rate.count + 1
    for (let room = 0; room < wanted; room++) {
      if (this.delayOf(pool, rate, oldest + room) > 0) return room
    }
    return Math.min(wanted, rate.count)
  }

  add(pool: string, { count }: StartsPer, begun: number): void {
    const { database } = this
    const last = this.last(pool)
    for (let n = last + 1; n <= last + begun; n++) database.run(ADD, pool, n, database.now)
    if (begun > 0) database.run(FORGET, pool, last + begun - count)
  }

  /** Returns the number of the newest begin. */
  private last(pool: string): number {
    return Number(this.database.first<{ readonly n: number | null }>(LAST, pool)?.n ?? 0)
  }

  /** Returns the time until a begin is not in the window of a begin now. */
  private delayOf(pool: string, { ms }: StartsPer, n: number): number {
    const start = this.database.first<{ readonly at: number }>(AT, pool, n)
    // Times are whole milliseconds, so one more is needed.
    return start === undefined ? 0 : Math.max(Number(start.at) + ms + 1 - this.database.now, 0)
  }

  /** If the clock was set back, treats begins in the future as begins of now. */
  private obeyClock(pool: string): void {
    const { database } = this
    const { now } = database
    const newest = database.first<{ readonly at: number }>(AT, pool, this.last(pool))
    if (newest !== undefined && newest.at > now) database.run(OBEY, now, pool, now)
  }
}

const LAST = 'SELECT max(n) AS n FROM longhaul_starts WHERE pool = ?'
const AT = 'SELECT at FROM longhaul_starts WHERE pool = ? AND n = ?'
const ADD = 'INSERT INTO longhaul_starts (pool, n, at) VALUES (?, ?, ?)'
const FORGET = 'DELETE FROM longhaul_starts WHERE pool = ? AND n <= ?'
const OBEY = 'UPDATE longhaul_starts SET at = ? WHERE pool = ? AND at > ?'
