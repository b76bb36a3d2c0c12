import type { Cron as CronTimes } from 'croner'
import { func, readOptions, text, type OptionTable } from '../../src/runtime/options.js'
import type { Schedule } from '../../src/tasks/definition/schedule.js'
import { Cron } from './croner.js'
import { Firings } from './firings.js'

export type { Schedule } from '../../src/tasks/definition/schedule.js'

/** Options of `cron`. */
interface CronOptions<In = unknown> {
  /**
   * Time zone of the pattern, such as `Europe/Vienna`.
   * @default 'UTC'
   */
  readonly timezone?: string
  /** Returns the input of the task of one firing. Default: `{}`. */
  readonly input?: (time: Date) => In | Promise<In>
}

const OPTIONS = {
  timezone: text({ default: 'UTC' }), input: func(),
} satisfies OptionTable<CronOptions>

/**
 * Submits a task at each time of a cron pattern: minute, hour, day of the month, month, day of the
 * week, with seconds in front if there are six fields. For the option `schedule` of `defineTask`.
 * Requires `npm install croner`. Each firing is one task, in however many processes the schedule
 * runs, by the clock of the engine. If no process could submit, only the latest missed firing is
 * submitted later. The hour that a time zone repeats in autumn fires once.
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
export function cron<In = Record<never, never>>(pattern: string, options: CronOptions<In> = {}): Schedule<In> {
  const { timezone, input = () => ({}) } = readOptions('cron', options as CronOptions, OPTIONS)
  const times = parse(pattern, timezone)
  return {
    begin: (host) => {
      const firings = new Firings(times, input, host)
      void firings.look()
      return () => firings.end()
    },
  }
}

/** Five or six fields, or an alias such as `@daily`. croner also accepts dates. */
const PATTERN = /^(?:@[a-z]+|\S+(?:\s+\S+){4,5})$/i
const MAX_PATTERN = 256

function parse(pattern: string, timezone: string): CronTimes {
  if (typeof pattern !== 'string' || pattern.length > MAX_PATTERN || !PATTERN.test(pattern.trim())) {
    throw new TypeError(`cron: the pattern must have five or six fields, such as '0 3 * * *', not ${String(pattern).slice(0, 60)}`)
  }
  try {
    const times = new Cron(pattern, { timezone, paused: true })
    // Throws for an unknown time zone; null for a pattern such as 31 February.
    if (times.nextRun() === null) throw new RangeError('it has no time in the future')
    return times
  } catch (cause) {
    const why = cause instanceof Error ? cause.message : String(cause)
    throw new TypeError(`cron: ${JSON.stringify(pattern)} in ${timezone} cannot be used: ${why}`, { cause })
  }
}
