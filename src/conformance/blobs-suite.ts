import { checkNames } from '../runtime/option-names.js'
import { BlobsContext, type BlobsConformanceOptions, type BlobsFixture } from './blobs-context.js'
import { lifetime } from './blobs-lifetime.js'
import { reading } from './blobs-reading.js'
import { writing } from './blobs-writing.js'
import { register, type Runner } from './runner.js'

const KNOWN = { title: 0, toleranceMs: 0, timeoutMs: 0 } satisfies Record<keyof BlobsConformanceOptions, 0>

/**
 * The behaviour that all `Blobs` have to show. Give it your test runner and a factory that makes a
 * fixture for each test; data that is left over from others does no harm.
 *
 * ```ts
 * import * as runner from 'node:test'
 * import { blobsConformance } from 'longhaul/conformance'
 *
 * blobsConformance(runner, async () => ({ blobs: new MyBlobs(bucket), second: new MyBlobs(bucket) }))
 * ```
 */
export function blobsConformance(runner: Runner, factory: () => Promise<BlobsFixture>, options: BlobsConformanceOptions = {}): void {
  checkNames('blobsConformance', options, KNOWN)
  register(runner, options.title ?? 'Blobs conformance', { writing, reading, lifetime }, async () => new BlobsContext(await factory(), options))
}
