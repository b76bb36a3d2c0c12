import assert from 'node:assert/strict'
import { describe, test } from 'node:test'
import { engineConformance } from 'longhaul/conformance'
import { BROKEN_ENGINES, correctEngine, type BrokenEngine } from './broken-engines.js'

/** Returns the tests by title. They run nothing yet. */
function testsOf(open: BrokenEngine['open'], isInMemory = false): Map<string, () => Promise<void>> {
  const tests = new Map<string, () => Promise<void>>()
  engineConformance({
    describe: (_name, body) => body(),
    it: (name, body) => {
      assert.ok(!tests.has(name), `two tests have the title ${name}`)
      tests.set(name, body)
    },
  }, async (settings) => open(settings), {
    leaseMs: 300, toleranceMs: 25, timeoutMs: 1500, isShared: !isInMemory, isBounded: true,
    removesAgainSoon: true, concurrency: 1,
  })
  return tests
}

// The test that has to notice a fault fails because of what it asserts.
describe('The suite of engines notices', { concurrency: 8 }, () => {
  for (const { fault, caughtBy, open, isInMemory } of BROKEN_ENGINES) {
    test(fault, async () => {
      const body = testsOf(open, isInMemory).get(caughtBy)
      assert.ok(body, `there is no test "${caughtBy}"`)
      const outcome = await body().then(() => undefined, (error: unknown) => error)
      assert.ok(
        outcome instanceof assert.AssertionError,
        `"${caughtBy}" did not notice: ${fault}; ${String(outcome)}`,
      )
    })
  }
})

describe('The same tests pass for correct engines', { concurrency: 4 }, () => {
  for (const isInMemory of [false, true]) {
    const tests = testsOf((settings) => correctEngine(settings, !isInMemory), isInMemory)
    const broken = BROKEN_ENGINES.filter((each) => (each.isInMemory ?? false) === isInMemory)
    for (const name of new Set(broken.map(({ caughtBy }) => caughtBy))) test(name, tests.get(name))
  }
})
