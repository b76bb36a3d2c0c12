export { partialResults, type Emitting, type PartialResults } from './partial-results.js'
