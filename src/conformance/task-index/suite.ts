import { checkNames } from '../../runtime/option-names.js'
import { register, type Runner } from '../runner.js'
import { changeCases } from './changes.js'
import { checkCases } from './checks.js'
import { Context, type TaskIndexConformanceOptions, type TaskIndexFixture } from './context.js'
import { listCases } from './lists.js'

const KNOWN = { title: 0, timeoutMs: 0 } satisfies Record<keyof TaskIndexConformanceOptions, 0>

/**
 * Registers the tests that every implementation of `TaskIndex` must pass. `runner` is a test runner
 * such as node:test, vitest, jest or mocha. `factory` creates a fresh, empty index for each test.
 *
 * @example
 * taskIndexConformance(runner, async () => ({ index: await openIndex() }))
 *
 * @throws {TypeError} An option is unknown.
 */
export function taskIndexConformance(
  runner: Runner,
  factory: () => Promise<TaskIndexFixture>,
  options: TaskIndexConformanceOptions = {},
): void {
  checkNames('taskIndexConformance', options, KNOWN)
  register(
    runner,
    options.title ?? 'TaskIndex conformance',
    { checks: checkCases, lists: listCases, changes: changeCases },
    async () => new Context(await factory(), options),
  )
}
