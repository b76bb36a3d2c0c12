import assert from 'node:assert/strict'
import { describe, test } from 'node:test'
import { storeConformance, type Runner } from 'longhaul/conformance'
import { MemoryStore } from '../../adapters/memory/store.js'
import { BROKEN_STORES, SHARE, storeLike, type Broken } from './broken-stores.js'

/** A runner that runs nothing: it keeps the tests by title. */
function collect(register: (runner: Runner) => void): Map<string, () => Promise<void>> {
  const tests = new Map<string, () => Promise<void>>()
  register({
    describe: (_name, body) => body(),
    it: (name, body) => {
      assert.ok(!tests.has(name), `two tests have the title ${name}`)
      tests.set(name, body)
    }
  })
  return tests
}

const options = { toleranceMs: 25, timeoutMs: 500 }
const storeTests = (make: () => MemoryStore | ReturnType<typeof storeLike>) =>
  collect((runner) =>
    storeConformance(runner, async () => ({ store: make(), close: () => undefined }), {
      ...options,
      callerShare: { entries: 20, bytes: 16_000 },
    }),
  )

/** The test that has to catch the fault fails, because of what it asserts and not because the mutant fell over. */
async function isCaught<T>(
  { fault, caughtBy, make }: Broken<T>,
  tests: (make: () => T) => Map<string, () => Promise<void>>,
): Promise<void> {
  const body = tests(make).get(caughtBy)
  assert.ok(body, `there is no test "${caughtBy}"`)
  const outcome = await body().then(
    () => undefined,
    (error: unknown) => error,
  )
  assert.ok(outcome instanceof assert.AssertionError, `"${caughtBy}" did not catch: ${fault}; ${String(outcome)}`)
}

describe('The store suite catches', { concurrency: 8 }, () => {
  for (const broken of BROKEN_STORES) test(broken.fault, () => isCaught(broken, storeTests))
})

describe('The suite passes for a correct store', { concurrency: 8 }, () => {
  const stores = storeTests(() => storeLike(new MemoryStore(SHARE)))
  for (const name of new Set(BROKEN_STORES.map((broken) => broken.caughtBy))) test(name, () => stores.get(name)?.())
})
