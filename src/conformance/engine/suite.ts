import { duration, flag, readOptions, text, whole, type OptionTable } from '../../runtime/options.js'
import { register, type Cases, type Runner } from '../runner.js'
import { callbackCases, sharedCallbackCases } from './callbacks.js'
import { changeCases } from './changes.js'
import { closeCases, memoryCloseCases, sharedCloseCases, watchCases } from './watch-close.js'
import {
  EngineContext, type CheckedOptions, type EngineConformanceOptions, type EngineFixture,
  type EngineSettings,
} from './context.js'
import { crashCases, sharedCrashCases } from './crashes.js'
import { createCases, transactionCases } from './create.js'
import { expiryCases, removalCases, runningExpiryCases, sharedExpiryCases } from './expiry.js'
import { CAPACITY, fullCases, limitCases } from './limits.js'
import { listCases } from './lists.js'
import { halfCases, lostCases } from './lost.js'
import { randomCases } from './random.js'
import { retryCases } from './retries.js'
import { runCases } from './runs.js'
import { SHARE_LIMITS, shareCases, turnCases } from './turns.js'

const OPTIONS = {
  title: text(),
  isShared: flag({ default: true }),
  isBounded: flag({ default: false }),
  hasTransactions: flag({ default: false }),
  removesAgainSoon: flag({ default: false }),
  leaseMs: duration({ default: 400 }),
  toleranceMs: duration({ default: 50 }),
  timeoutMs: duration({ default: 5000 }),
  concurrency: whole({ min: 1, default: 4 }),
} satisfies OptionTable<EngineConformanceOptions>

/** Settings of the cases of one group. */
type Settings = (options: CheckedOptions) => EngineSettings

/** No case waits for the end of this lease. */
const LONG: Settings = () => ({ leaseMs: 15_000 })
const SHARE: Settings = () => ({ leaseMs: 15_000, share: SHARE_LIMITS })
const FULL: Settings = () => ({ leaseMs: 15_000, capacity: CAPACITY })
const SHORT: Settings = ({ leaseMs }) => ({ leaseMs })

interface Group {
  readonly cases: Cases<EngineContext>
  readonly settings: Settings
}

function groupsFor(
  { isShared, isBounded, hasTransactions, removesAgainSoon }: CheckedOptions,
): Readonly<Record<string, Group>> {
  return {
    'create and keys': { cases: createCases, settings: LONG },
    'changes and fences': { cases: changeCases, settings: LONG },
    'runs': { cases: runCases, settings: LONG },
    'attempts and retries': { cases: retryCases, settings: LONG },
    'leases and crashes': { cases: crashCases, settings: SHORT },
    ...isShared && { 'workers that die': { cases: sharedCrashCases, settings: SHORT } },
    'callbacks': { cases: callbackCases, settings: LONG },
    ...isShared && { 'callbacks of processes that die': { cases: sharedCallbackCases, settings: LONG } },
    'fairness, priority and counts': { cases: turnCases, settings: LONG },
    'limits of callers': { cases: limitCases, settings: LONG },
    'lists': { cases: listCases, settings: LONG },
    'expiry and files': { cases: expiryCases, settings: LONG },
    ...removesAgainSoon && { 'removals that fail': { cases: removalCases, settings: LONG } },
    'runs that expire': { cases: runningExpiryCases, settings: SHORT },
    ...isShared && { 'files of processes that die': { cases: sharedExpiryCases, settings: LONG } },
    'shares of callers': { cases: shareCases, settings: SHARE },
    ...isBounded && { 'a full engine': { cases: fullCases, settings: FULL } },
    'watch': { cases: watchCases, settings: LONG },
    'close': { cases: closeCases, settings: LONG },
    ...isShared && { 'close of one process': { cases: sharedCloseCases, settings: SHORT } },
    'lost responses': { cases: lostCases, settings: LONG },
    ...isShared && { 'a process is killed during a call': { cases: halfCases, settings: SHORT } },
    'random faults': { cases: randomCases, settings: SHORT },
    ...hasTransactions && { 'transactions': { cases: transactionCases, settings: LONG } },
    ...!isShared && { 'close of an engine in memory': { cases: memoryCloseCases, settings: LONG } },
  }
}

/**
 * Registers the tests that every implementation of `TaskEngine` must pass. `runner` is a test runner
 * such as node:test, vitest, jest or mocha. `open` creates a fixture without tasks for each test.
 *
 * @example
 * import * as runner from 'node:test'
 * import { engineConformance } from 'longhaul/conformance'
 *
 * engineConformance(runner, async ({ leaseMs, share }) => {
 *   const engine = await openEngine({ leaseMs, share })
 *   return { open: async () => ({ engine }), close: () => engine.close({ drainMs: 0 }) }
 * }, { isShared: false })
 *
 * @throws {TypeError} An option is unknown.
 */
export function engineConformance(
  runner: Runner,
  open: (settings: EngineSettings) => Promise<EngineFixture>,
  options: EngineConformanceOptions = {},
): void {
  const checked = { title: 'TaskEngine conformance', ...readOptions('engineConformance', options, OPTIONS) }
  const groups = groupsFor(checked)
  const cases = Object.fromEntries(Object.entries(groups).map(([title, group]) => [title, group.cases]))
  register(runner, checked.title, cases, async (group) => {
    const settings = (groups[group] as Group).settings(checked)
    const fixture = await open(settings)
    return new EngineContext(fixture, await fixture.open(), settings.leaseMs, checked)
  }, checked.concurrency)
}
