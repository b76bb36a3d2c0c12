import { Cron } from 'croner'
import { func, readOptions, text, type OptionTable } from '../../src/runtime/options.js'
import type { Schedule } from '../../src/tasks/definition/schedule.js'
import { Firings } from './firings.js'

export type { Schedule, ScheduleHost } from '../../src/tasks/definition/schedule.js'

/** Options of `cron`. */
export interface CronOptions {
  /**
   * Time zone of the pattern, such as `Europe/Vienna`.
   * @default 'UTC'
   */
  readonly timezone?: string
  /** Returns the input of the task of one firing. Default: `{}`. */
  readonly input?: (time: Date) => unknown
}

const OPTIONS = {
  timezone: text({ default: 'UTC' }), input: func(),
} satisfies OptionTable<CronOptions>

/**
 * Submits a task at each time of a cron pattern: minute, hour, day of the month, month, day of the week,
 * with seconds in front if there are six fields. For the option `schedule` of `defineTask`. Requires
 * `npm install croner`, which parses the pattern.
 *
 * Each firing is one task, however many processes have the schedule: its id is the name of the definition and
 * the time, such as `nightly.20261126T030000Z`. The clock of the engine decides. If no process worked at
 * the times of several firings, the latest of them is made up for. The first start of a schedule makes up for none.
 *
 * @example
 * const nightly = defineTask({
 *   name: 'nightly',
 *   schedule: cron('0 3 * * *', { timezone: 'Europe/Vienna' }),
 *   run: async () => ({ message: 'Cleaned.' }),
 * })
 *
 * @throws {TypeError} The pattern or the time zone is not valid, or an option is unknown.
 */
export function cron(pattern: string, options: CronOptions = {}): Schedule {
  const { timezone, input = () => ({}) } = readOptions('cron', options, OPTIONS)
  const times = parse(pattern, timezone)
  return {
    begin: (host) => {
      const firings = new Firings(times, input, host)
      void firings.look()
      return () => { firings.end() }
    },
  }
}

function parse(pattern: string, timezone: string): Cron {
  try {
    const times = new Cron(pattern, { timezone, paused: true })
    // Reads the time zone, and finds patterns such as 31 February.
    if (times.nextRun() === null) throw new RangeError('it has no time in the future')
    return times
  } catch (cause) {
    const why = cause instanceof Error ? cause.message : String(cause)
    throw new TypeError(`cron: ${JSON.stringify(pattern)} in ${timezone} cannot be used: ${why}`, { cause })
  }
}
