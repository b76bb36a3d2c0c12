import { checkNames } from '../runtime/option-names.js'
import { BlobsContext, type BlobsConformanceOptions, type BlobsFixture } from './blobs-context.js'
import { lifetime } from './blobs-lifetime.js'
import { reading } from './blobs-reading.js'
import { writing } from './blobs-writing.js'
import { register, type Runner } from './runner.js'

const KNOWN = { title: 0, toleranceMs: 0, timeoutMs: 0 } satisfies Record<
  keyof BlobsConformanceOptions,
  0
>

/**
 * Registers the tests that every implementation of `Blobs` must pass. `runner` is a test runner
 * such as node:test, vitest, jest or mocha. `factory` creates the blobs of one test; data of other
 * tests does no harm.
 *
 * @example
 * import * as runner from 'node:test'
 * import { blobsConformance } from 'longhaul/conformance'
 *
 * blobsConformance(runner, async () => ({ blobs: await openBlobs(), second: await openBlobs() }))
 *
 * @throws {TypeError} An option is unknown.
 */
export function blobsConformance(
  runner: Runner,
  factory: () => Promise<BlobsFixture>,
  options: BlobsConformanceOptions = {},
): void {
  checkNames('blobsConformance', options, KNOWN)
  register(
    runner,
    options.title ?? 'Blobs conformance',
    { writing, reading, lifetime },
    async () => new BlobsContext(await factory(), options),
  )
}
