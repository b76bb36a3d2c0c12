export { authenticate, authorize } from './authenticate.js'
export {
  apiKey, basic, bearer, hostUser, sameSecret, tokens, type Credentials, type Scheme,
  type VerifyToken,
} from './schemes.js'
export { crossSite } from './cross-site.js'
export { bodyBytes, consume, rateLimit, type RateLimitEvent } from './rate-limit.js'
export { limitBody, limitConcurrency, limitHeaders } from './limits.js'
export { requestId, requestIdOf } from './request-id.js'
export { timeouts } from './timeouts.js'
export { idempotent } from '../idempotency/policy.js'
