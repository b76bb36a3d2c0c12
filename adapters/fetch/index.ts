export { toFetch, type FetchCall, type FetchHandler } from './to-fetch.js'
