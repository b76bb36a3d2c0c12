export { type BlobsConformanceOptions, type BlobsFixture } from './blobs-bench.js'
export { blobsConformance } from './blobs-suite.js'
export {
  taskIndexConformance, type TaskIndexConformanceOptions, type TaskIndexFixture,
} from './index-suite.js'
export { type QueueConformanceOptions, type QueueFixture } from './queue-bench.js'
export { queueConformance } from './queue-suite.js'
export { type Runner } from './runner.js'
export { type StoreConformanceOptions, type StoreFixture } from './store-bench.js'
export { storeConformance } from './store-suite.js'
