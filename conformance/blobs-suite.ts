import { duration, readOptions, text, type OptionTable } from '../src/runtime/options.js'
import { BlobsContext, type BlobsFixture } from './blobs-context.js'
import { lifetime, reading } from './blobs-reading.js'
import { writing } from './blobs-writing.js'
import { register, type Runner, type SuiteOptions } from './runner.js'

const OPTIONS = {
  title: text(),
  toleranceMs: duration({ default: 50 }),
  timeoutMs: duration({ default: 5000 }),
} satisfies OptionTable<SuiteOptions>

/**
 * Registers the tests that every implementation of `Blobs` must pass. `runner` is a test runner
 * such as node:test, vitest, jest or mocha. `factory` creates the blobs of one test; data of other
 * tests does no harm.
 * @example
 * import * as runner from 'node:test'
 * import { blobsConformance } from 'longhaul/conformance'
 *
 * blobsConformance(runner, async () => ({ blobs: await openBlobs(), second: await openBlobs() }))
 * @throws {TypeError} An option is unknown.
 */
export function blobsConformance(
  runner: Runner,
  factory: () => Promise<BlobsFixture>,
  options: SuiteOptions = {},
): void {
  const checked = { title: 'Blobs conformance', ...readOptions('blobsConformance', options, OPTIONS) }
  register(runner, checked, { writing, reading, lifetime }, async () => (
    new BlobsContext(await factory(), checked)
  ))
}
