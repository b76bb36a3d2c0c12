export type { BlobInfo, BlobLink, BlobPutOptions, BlobRange, Blobs, LinkHeaders } from './blobs.js'
export type { StoreEvent } from './calls.js'
export { entryFault } from './entry-fault.js'
export {
  isStoreUnavailable, StoreUnavailableError, type Conflict, type Counter, type Created,
  type Entry, type Existing, type Replaced, type ReplaceOptions, type Store, type Unsubscribe,
  type WriteOptions,
} from './store.js'
