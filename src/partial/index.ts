export { partialResults, type Emitting, type PartialResults, type PartialResultsOptions } from './partial-results.js'
