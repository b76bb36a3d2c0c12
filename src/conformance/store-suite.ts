import { checkNames } from '../runtime/option-names.js'
import { register, type Runner } from './runner.js'
import { StoreContext, type StoreConformanceOptions, type StoreFixture } from './store-context.js'
import { closing } from './store-close.js'
import { counters } from './store-counters.js'
import { entries } from './store-entries.js'
import { expiry } from './store-expiry.js'
import { owners } from './store-owners.js'
import { races } from './store-races.js'
import { text } from './store-text.js'
import { watching } from './store-watch.js'

const KNOWN = { title: 0, toleranceMs: 0, timeoutMs: 0, ownerShare: 0 } satisfies Record<
  keyof StoreConformanceOptions,
  0
>

/**
 * Registers the tests that every implementation of `Store` must pass. `runner` is a test runner
 * such as node:test, vitest, jest or mocha. `factory` creates the store of one test; data of other
 * tests does no harm.
 *
 * @example
 * import * as runner from 'node:test'
 * import { storeConformance } from 'longhaul/conformance'
 *
 * storeConformance(runner, async () => ({ store: await openStore(), second: await openStore() }))
 *
 * @throws {TypeError} An option is unknown.
 */
export function storeConformance(
  runner: Runner,
  factory: () => Promise<StoreFixture>,
  options: StoreConformanceOptions = {},
): void {
  checkNames('storeConformance', options, KNOWN)
  const groups = {
    entries, races, expiry, counters, text, watch: watching, close: closing,
    ...options.ownerShare && { owners },
  }
  register(
    runner,
    options.title ?? 'Store conformance',
    groups,
    async () => new StoreContext(await factory(), options),
  )
}
