import type { Cron } from 'croner'
import type { ScheduleHost } from '../../src/tasks/definition/schedule.js'
import { newId } from '../../src/runtime/random-id.js'
import { StoredRecord, type RecordKind } from '../../src/stores/stored-record.js'
import { clearTimeout, setTimeout, within } from '../../src/runtime/timers.js'

/** Maximum time between two reads of the engine's clock, which may be set, in milliseconds. */
const MAX_WAIT_MS = 60_000
const RETRY_MS = 5000
/** Maximum time of a submit, in milliseconds: a `check` of the definition may never settle. */
const SUBMIT_MS = 60_000
/** Lifetime of the note of the latest firing, in milliseconds: longer than a pattern can pause. */
const KNOWN_MS = 10 * 366 * 86_400_000

/** Note of the latest firing. */
interface Note {
  readonly time: number
  /** Part of the ids of the tasks. */
  readonly secret: string
}

const NOTE: RecordKind<Note> = { options: () => ({ ttlMs: KNOWN_MS }) }

/**
 * The firings of one schedule in this process. The store keeps the latest firing, for all
 * processes.
 */
export class Firings {
  private timer: ReturnType<typeof setTimeout> | undefined
  private isOver = false
  private looking: Promise<void> = Promise.resolve()

  constructor(
    private readonly times: Cron, private readonly input: (time: Date) => unknown,
    private readonly host: ScheduleHost,
  ) {}

  /** Submits what is due, and schedules the next look. Never rejects. */
  look(): Promise<void> {
    this.looking = this.lookNow()
    return this.looking
  }

  /** Resolves when no firing is under way. */
  end(): Promise<void> {
    this.isOver = true
    clearTimeout(this.timer)
    return this.looking
  }

  private async lookNow(): Promise<void> {
    let waitMs = RETRY_MS
    const began = performance.now()
    try {
      const now = await this.host.now()
      await this.fire(now)
      waitMs = Math.min((nextAfter(this.times, now) ?? Infinity) - now, MAX_WAIT_MS)
    } catch (error) {
      if (!this.isOver) this.host.onError(error)
    }
    if (this.isOver) return
    const leftMs = Math.max(waitMs - (performance.now() - began), 1)
    this.timer = setTimeout(() => { void this.look() }, leftMs).unref()
  }

  /** Submits the task of the latest firing, unless a process has done so. */
  private async fire(now: number): Promise<void> {
    const { times, host: { name, store, submit } } = this
    // Each pattern has its own note, because a new one must not make up for earlier times.
    const key = `schedule:${name}:${times.getPattern()}:${String(times.options.timezone)}`
    const record = new StoredRecord<Note>(store, key, NOTE)
    const { time: since, secret } = await record.read() ?? { time: now, secret: newId() }
    const note = (time: number) => record.write({ time, secret })
    // A clock that was ahead must not stop the schedule until that time.
    if (record.value === undefined || since > now + MAX_WAIT_MS) {
      await note(now)
      return
    }
    const latest = latestBetween(times, since, now)
    if (latest === undefined) return
    const time = new Date(latest)
    // First the task: if the process dies before the note, another one submits the same id again.
    const input = await this.input(time)
    await within(submit(idOf(name, time, secret), input), SUBMIT_MS, () => (
      new Error(`The task of ${name} for ${time.toISOString()} was not submitted within ${SUBMIT_MS} ms`)
    ))
    await note(latest)
  }
}

/**
 * Returns the next time after `moment`. In the hour that a time zone repeats in autumn, croner
 * returns times of the first hour again, which this function skips.
 */
export function nextAfter(times: Cron, moment: number): number | undefined {
  let next = times.nextRun(new Date(moment))
  for (let at = moment - moment % 60_000 + 59_000; next !== null && next.getTime() <= moment; at += 60_000) {
    next = times.nextRun(new Date(at))
  }
  return next?.getTime()
}

/** Returns the latest time after `since` up to `now`. `previousRuns` throws for patterns of February. */
export function latestBetween(times: Cron, since: number, now: number): number | undefined {
  let latest = nextAfter(times, since)
  if (latest === undefined || latest > now) return undefined
  for (let end = now; end - latest >= 1000;) {
    const middle = Math.floor((latest + end) / 2)
    const next = nextAfter(times, middle)
    if (next !== undefined && next <= now) latest = next
    else end = middle
  }
  return latest
}

/** The secret is for endpoints with `owner: 'anyone'`, where an id is enough to cancel the task. */
function idOf(name: string, time: Date, secret: string): string {
  return `${name}.${time.toISOString().slice(0, -'.000Z'.length).replaceAll(/[-:]/g, '')}Z.${secret}`
}
