import { duration, flag, readOptions, text, whole, type OptionTable } from '../../src/runtime/options.js'
import { register, type Cases, type Runner } from '../runner.js'
import { askingCases, askingCrashCases, sharedAskingCases } from './asking.js'
import { asyncContextCases } from './async-context.js'
import { callbackCases } from './callbacks.js'
import { changeCases } from './changes.js'
import { closeCases, memoryCloseCases, sharedCloseCases, watchesOfTasks } from './watch-close.js'
import {
  EngineContext, type CheckedOptions, type EngineConformanceOptions, type EngineFixture,
  type EngineSettings,
} from './context.js'
import { crashCases, sharedCrashCases } from './crashes.js'
import { createCases, transactionCases } from './create.js'
import { expiryCases, removalCases, runningExpiryCases, sharedExpiryCases } from './expiry.js'
import { halfCases } from './killed.js'
import { CAPACITY, fullCases, limitCases } from './limits.js'
import { listCases } from './lists.js'
import { randomCases } from './random.js'
import { retryCases } from './retries.js'
import { pauseCases } from './pauses.js'
import { runLimitCases, sharedRunLimitCases } from './run-limits.js'
import { runCases } from './runs.js'
import { SHARE_LIMITS, shareCases, turnCases } from './turns.js'
import { uniqueCases } from './unique.js'

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

interface Group {
  readonly cases: Cases<EngineContext>
  /** `true` if the cases wait for the end of a lease. */
  readonly isShort?: boolean
  readonly share?: EngineSettings['share']
  readonly capacity?: number
}

function groupsFor(
  { isShared, isBounded, hasTransactions, removesAgainSoon }: CheckedOptions,
): Readonly<Record<string, Group>> {
  return {
    'create and keys': { cases: createCases },
    'changes and fences': { cases: changeCases },
    'runs': { cases: runCases },
    'async context': { cases: asyncContextCases },
    'attempts and retries': { cases: retryCases },
    'leases and crashes': { cases: crashCases, isShort: true },
    ...isShared && { 'workers that die': { cases: sharedCrashCases, isShort: true } },
    'tasks that ask': { cases: askingCases },
    'tasks that ask after a crash': { cases: askingCrashCases, isShort: true },
    ...isShared && { 'tasks that ask in a process that dies': { cases: sharedAskingCases, isShort: true } },
    'callbacks': { cases: callbackCases },
    'fairness, priority and counts': { cases: turnCases },
    'limits of callers': { cases: limitCases },
    'limits of running work': { cases: runLimitCases },
    ...isShared && { 'limits of running work in several processes': { cases: sharedRunLimitCases, isShort: true } },
    'paused pools': { cases: pauseCases },
    'business keys': { cases: uniqueCases },
    'lists': { cases: listCases },
    'expiry and files': { cases: expiryCases },
    ...removesAgainSoon && { 'removals that fail': { cases: removalCases } },
    'runs that expire': { cases: runningExpiryCases, isShort: true },
    ...isShared && { 'files of processes that die': { cases: sharedExpiryCases } },
    'shares of callers': { cases: shareCases, share: SHARE_LIMITS },
    ...isBounded && { 'a full engine': { cases: fullCases, capacity: CAPACITY } },
    'watch': { cases: watchesOfTasks },
    'close': { cases: closeCases },
    ...isShared && { 'close of one process': { cases: sharedCloseCases, isShort: true } },
    ...isShared && { 'a process is killed during a call': { cases: halfCases, isShort: true } },
    'random faults': { cases: randomCases, isShort: true },
    ...hasTransactions && { 'transactions': { cases: transactionCases } },
    ...!isShared && { 'close of an engine in memory': { cases: memoryCloseCases } },
  }
}

/**
 * Registers the tests that every implementation of `TaskEngine` must pass. `runner` is a test
 * runner such as node:test, vitest, jest or mocha. `open` creates a fixture without tasks for each
 * test.
 * @example
 * import * as runner from 'node:test'
 * import { engineConformance } from 'longhaul/conformance'
 *
 * engineConformance(runner, async ({ leaseMs, share }) => {
 *   const engine = await openEngine({ leaseMs, share })
 *   return { open: async () => ({ engine }), close: () => engine.close({ drainMs: 0 }) }
 * }, { isShared: false })
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
  register(runner, checked, cases, async (group) => {
    const { cases: _, isShort, ...settings } = groups[group] as Group
    const leaseMs = isShort ? checked.leaseMs : 15_000
    const fixture = await open({ leaseMs, ...settings })
    return new EngineContext(fixture, await fixture.open(), leaseMs, checked)
  })
}
