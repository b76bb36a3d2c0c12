export type { Emitted, Emitting } from './emitting.js'
export { partialResults, type PartialResults } from './partial-results.js'
