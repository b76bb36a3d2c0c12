import { checkNames } from '../runtime/option-names.js'
import { QueueContext, type QueueConformanceOptions, type QueueFixture } from './queue-context.js'
import { closing } from './queue-close.js'
import { handBack } from './queue-hand-back.js'
import { retries } from './queue-retries.js'
import { capacity } from './queue-capacity.js'
import { pools } from './queue-pools.js'
import { running } from './queue-running.js'
import { register, type Runner } from './runner.js'

const KNOWN = { title: 0, toleranceMs: 0, timeoutMs: 0 } satisfies Record<
  keyof QueueConformanceOptions,
  0
>

/**
 * Registers the tests that every implementation of `Queue` must pass. `runner` is a test runner
 * such as node:test, vitest, jest or mocha. `factory` creates a fresh, empty queue for each test.
 *
 * @example
 * import * as runner from 'node:test'
 * import { queueConformance } from 'longhaul/conformance'
 *
 * queueConformance(runner, async () => ({ queue: await openQueue() }))
 *
 * @throws {TypeError} An option is unknown.
 */
export function queueConformance(
  runner: Runner,
  factory: () => Promise<QueueFixture>,
  options: QueueConformanceOptions = {},
): void {
  checkNames('queueConformance', options, KNOWN)
  const groups = { running, retries, 'hand back': handBack, capacity, pools, close: closing }
  register(
    runner,
    options.title ?? 'Queue conformance',
    groups,
    async () => new QueueContext(await factory(), options),
  )
}
