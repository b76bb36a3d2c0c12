import type { Cron } from 'croner'
import type { ScheduleHost } from '../../src/tasks/definition/schedule.js'
import { clearTimeout, setTimeout } from '../../src/runtime/timers.js'

/** Longest time between two looks at the clock of the engine, in milliseconds. It may be set meanwhile. */
const MAX_WAIT_MS = 60_000
/** Delay before the next try if the engine or the store does not respond, in milliseconds. */
const RETRY_MS = 5000
/** Time for which the latest firing is known, in milliseconds: longer than a pattern can pause. */
const KNOWN_MS = 10 * 366 * 86_400_000

/** The firings of one schedule in this process. The latest one is in the store, for all processes. */
export class Firings {
  private timer: ReturnType<typeof setTimeout> | undefined
  private isOver = false

  constructor(
    private readonly times: Cron, private readonly input: (time: Date) => unknown,
    private readonly host: ScheduleHost,
  ) {}

  /** Submits what is due, and looks again at the next time of the pattern. Never rejects. */
  async look(): Promise<void> {
    let waitMs = RETRY_MS
    try {
      const now = await this.host.now()
      await this.fire(now)
      const next = this.times.nextRun(new Date(now))
      waitMs = Math.min(next === null ? MAX_WAIT_MS : next.getTime() - now, MAX_WAIT_MS)
    } catch (error) {
      // A process that closes may have closed its store, and another one submits the same id.
      if (!this.isOver) this.host.onError(error)
    }
    if (this.isOver) return
    this.timer = setTimeout(() => { void this.look() }, Math.max(waitMs, 1)).unref()
  }

  end(): void {
    this.isOver = true
    clearTimeout(this.timer)
  }

  /** Submits the task of the latest firing, unless it is known. */
  private async fire(now: number): Promise<void> {
    const { host: { name, store, submit } } = this
    const key = `schedule:${name}`
    const known = await store.get(key)
    if (known === undefined) {
      await store.create(key, String(now), { ttlMs: KNOWN_MS })
      return
    }
    // Firings are on whole seconds, and that of the present second counts as past.
    const [latest] = this.times.previousRuns(1, new Date(Math.floor(now / 1000) * 1000 + 1000))
    if (latest === undefined || latest.getTime() <= Number(known.value)) return
    // First the task: if the process dies in between, another one submits the same id again.
    await submit(idOf(name, latest), this.input(latest))
    await store.replace(key, String(latest.getTime()), known.revision, { ttlMs: KNOWN_MS })
  }
}

function idOf(name: string, time: Date): string {
  return `${name}.${time.toISOString().slice(0, -'.000Z'.length).replaceAll(/[-:]/g, '')}Z`
}
