export { partialResults, type Emitted, type Emitting, type PartialResults } from './partial-results.js'
