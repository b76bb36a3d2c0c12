export { checkBackoff, retryDelay } from '../../src/queues/backoff.js'
