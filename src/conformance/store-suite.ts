import { checkNames } from '../runtime/option-names.js'
import { register, type Runner } from './runner.js'
import { StoreContext, type StoreConformanceOptions, type StoreFixture } from './store-context.js'
import { closing } from './store-close.js'
import { counters } from './store-counters.js'
import { entries } from './store-entries.js'
import { expiry } from './store-expiry.js'
import { races } from './store-races.js'
import { text } from './store-text.js'
import { watching } from './store-watch.js'

const KNOWN = { title: 0, toleranceMs: 0, timeoutMs: 0 } satisfies Record<keyof StoreConformanceOptions, 0>

/**
 * The behaviour that every `Store` has to show. Give it your test runner and a factory that makes a
 * fixture for each test; data that is left over from others does no harm.
 *
 * ```ts
 * import * as runner from 'node:test'
 * import { storeConformance } from 'longhaul/conformance'
 *
 * storeConformance(runner, async () => ({ store: new MyStore(client), second: new MyStore(client) }))
 * ```
 */
export function storeConformance(runner: Runner, factory: () => Promise<StoreFixture>, options: StoreConformanceOptions = {}): void {
  checkNames('storeConformance', options, KNOWN)
  const groups = { entries, races, expiry, counters, text, watch: watching, close: closing }
  register(runner, options.title ?? 'Store conformance', groups, async () => new StoreContext(await factory(), options))
}
