import { duration, readOptions, type OptionTable } from '../runtime/options.js'
import { clearTimeout, setImmediate, setTimeout, type Clock } from '../runtime/timers.js'

/** Turns of the event loop without work after which the engine is idle. */
const IDLE_TURNS = 3

/** Options of `testClock`. */
export interface TestClockOptions {
  /**
   * Maximum real time that `advance` waits for running work, in milliseconds. Then it rejects.
   * @default 5000
   */
  readonly maxRunMs?: number
}

/** A clock that stands still until a test advances it. */
export interface TestClock extends Clock {
  /**
   * Moves the time forward by `ms` milliseconds. Runs all work that becomes due in this time, in
   * order of time. Resolves once no work runs.
   *
   * @throws {TypeError} `ms` is not 0 or more.
   * @throws {Error} Work has run for longer than `maxRunMs`.
   */
  advance(ms: number): Promise<void>
}

interface Timer {
  readonly dueAt: number
  readonly callback: () => void
}

const OPTIONS = { maxRunMs: duration({ min: 1, default: 5000 }) } satisfies OptionTable<TestClockOptions>

/**
 * Creates a clock for `memory({ clock })`. Delays, back-off, retention and rate limits of that
 * engine follow it. Time-outs of runs, long polls and dates in records stay in real time.
 *
 * @example
 * const clock = testClock()
 * const tasks = createTasks({ ...memory({ clock }), definitions: [report] })
 * const task = await tasks.submit(report, { year: 2025 }, { delayMs: 3_600_000 })
 * await clock.advance(3_600_000)
 * await task.get() // has run
 *
 * @throws {TypeError} `maxRunMs` is less than 1, or an option is unknown.
 */
export function testClock(options: TestClockOptions = {}): TestClock {
  return new ManualClock(readOptions('testClock', options, OPTIONS).maxRunMs)
}

class ManualClock implements TestClock {
  /** Timers in the order in which they were scheduled. */
  readonly #timers = new Set<Timer>()
  #now = 0
  #running = 0
  #onIdle: (() => void) | undefined
  /** Calls of `advance` run one after the other. */
  #last: Promise<void> = Promise.resolve()

  constructor(private readonly maxRunMs: number) {}

  now(): number {
    return this.#now
  }

  schedule(delayMs: number, callback: () => void): () => void {
    const timer = { dueAt: this.#now + Math.max(delayMs, 0), callback }
    this.#timers.add(timer)
    return () => { this.#timers.delete(timer) }
  }

  hold(): () => void {
    let held = true
    this.#running++
    return () => {
      if (!held) return
      held = false
      this.#running--
      if (this.#running === 0) this.#onIdle?.()
    }
  }

  async advance(ms: number): Promise<void> {
    if (!(ms >= 0 && Number.isFinite(ms))) {
      throw new TypeError(`advance: pass 0 or more milliseconds, not ${String(ms)}`)
    }
    const advanced = this.#last.then(() => this.#advanceTo(this.#now + ms))
    this.#last = advanced.catch(() => undefined)
    await advanced
  }

  async #advanceTo(end: number): Promise<void> {
    await this.#idle()
    for (let timer = this.#nextUntil(end); timer !== undefined; timer = this.#nextUntil(end)) {
      this.#timers.delete(timer)
      this.#now = timer.dueAt
      timer.callback()
      await this.#idle()
    }
    this.#now = end
  }

  #nextUntil(end: number): Timer | undefined {
    let next: Timer | undefined
    for (const timer of this.#timers) {
      if (timer.dueAt <= end && (next === undefined || timer.dueAt < next.dueAt)) next = timer
    }
    return next
  }

  /** Resolves once no work has run for a few turns of the event loop. */
  async #idle(): Promise<void> {
    let idleTurns = 0
    while (idleTurns < IDLE_TURNS) {
      await new Promise<void>((resolve) => { setImmediate(resolve) })
      if (this.#running === 0) {
        idleTurns++
      } else {
        await this.#workEnds()
        idleTurns = 0
      }
    }
  }

  #workEnds(): Promise<void> {
    return new Promise((resolve, reject) => {
      const timer = setTimeout(() => {
        this.#onIdle = undefined
        reject(new Error(`advance: work has run for ${this.maxRunMs} ms of real time and has not ended; ` +
          'give testClock a longer maxRunMs, or end the work before you advance the clock'))
      }, this.maxRunMs)
      const idle = (): void => {
        this.#onIdle = undefined
        clearTimeout(timer)
        resolve()
      }
      this.#onIdle = idle
    })
  }
}
