import { duration, readOptions, text, value, type OptionTable } from '../src/runtime/options.js'
import { register, type Runner } from './runner.js'
import { StoreContext, type StoreConformanceOptions, type StoreFixture } from './store-context.js'
import { entries, strings } from './store-entries.js'
import { expiry, callers } from './store-expiry.js'
import { counters, races } from './store-races.js'
import { closing, watching } from './store-watch.js'

const OPTIONS = {
  title: text(),
  toleranceMs: duration({ default: 50 }),
  timeoutMs: duration({ default: 5000 }),
  callerShare: value('{ entries, bytes }', (share) => typeof share === 'object'),
} satisfies OptionTable<StoreConformanceOptions>

/**
 * Registers the tests that every implementation of `Store` must pass. `runner` is a test runner
 * such as node:test, vitest, jest or mocha. `factory` creates the store of one test; data of other
 * tests does no harm.
 * @example
 * import * as runner from 'node:test'
 * import { storeConformance } from 'longhaul/conformance'
 *
 * storeConformance(runner, async () => ({ store: await openStore(), second: await openStore() }))
 * @throws {TypeError} An option is unknown.
 */
export function storeConformance(
  runner: Runner,
  factory: () => Promise<StoreFixture>,
  options: StoreConformanceOptions = {},
): void {
  const checked = { title: 'Store conformance', ...readOptions('storeConformance', options, OPTIONS) }
  const groups = {
    entries, strings, races, expiry, counters, watch: watching, close: closing,
    ...checked.callerShare && { callers },
  }
  register(runner, checked, groups, async () => new StoreContext(await factory(), checked))
}
