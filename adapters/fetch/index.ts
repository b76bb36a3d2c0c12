export type { FetchFacts } from './request.js'
export { toFetch, type ContextFetchHandler, type FetchCall, type FetchHandler, type FetchOptions } from './to-fetch.js'
