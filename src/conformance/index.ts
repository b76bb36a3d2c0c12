export { type BlobsConformanceOptions, type BlobsFixture } from './blobs-context.js'
export { blobsConformance } from './blobs-suite.js'
export {
  type EngineConformanceOptions, type EngineFixture, type EngineProcess, type EngineSettings,
  type OpenTransaction,
} from './engine/context.js'
export { engineConformance } from './engine/suite.js'
export { type Runner } from './runner.js'
export {
  type OwnerShare, type StoreConformanceOptions, type StoreFixture,
} from './store-context.js'
export { storeConformance } from './store-suite.js'
