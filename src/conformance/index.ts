export { type BlobsConformanceOptions, type BlobsFixture } from './blobs-context.js'
export { blobsConformance } from './blobs-suite.js'
export {
  type TaskIndexConformanceOptions, type TaskIndexFixture,
} from './task-index/context.js'
export { taskIndexConformance } from './task-index/suite.js'
export { type QueueConformanceOptions, type QueueFixture } from './queue-context.js'
export { queueConformance } from './queue-suite.js'
export { type Runner } from './runner.js'
export {
  type OwnerShare, type StoreConformanceOptions, type StoreFixture,
} from './store-context.js'
export { storeConformance } from './store-suite.js'
