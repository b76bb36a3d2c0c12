export {
  authenticate, authorize, type AuthenticateOptions, type AuthorizeOptions, type CredentialCache,
} from './authenticate.js'
export {
  apiKey, basic, bearer, hostUser, sameSecret, tokens, type ApiKeyPlace, type Credentials,
  type Scheme, type VerifyPassword, type VerifyToken,
} from './schemes.js'
export { clientAddress, type ClientAddressOptions } from '../http/requester.js'
export { crossSite, type CrossSiteOptions } from './cross-site.js'
export {
  bodyBytes, consume, rateLimit, type RateLimitEvent, type RateLimitOptions, type RateLimitPolicy,
} from './rate-limit.js'
export {
  limitBody, limitConcurrency, limitHeaders, type LimitBodyOptions, type LimitBy,
  type LimitConcurrencyOptions, type LimitHeadersOptions,
} from './limits.js'
export { requestId, requestIdOf, type RequestIdOptions } from './request-id.js'
export { timeouts, type TimeoutsOptions } from './timeouts.js'
export { idempotent, type IdempotentOptions } from '../idempotency/policy.js'
export type { KeptResponse, OnceWork } from '../idempotency/once.js'
