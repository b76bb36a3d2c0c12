export { toFetch, type FetchHandler } from './to-fetch.js'
