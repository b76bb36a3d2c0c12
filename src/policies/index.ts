export { authenticate, type AuthenticateOptions, type CredentialCache } from './authenticate.js'
export { authorize, type AuthorizeOptions } from './authorize.js'
export {
  apiKey, basic, bearer, hostUser, tokens, type ApiKeyPlace, type VerifyPassword, type VerifyToken,
} from './schemes.js'
export { sameSecret } from './secret.js'
export type { Credentials, Scheme } from './schemes.js'
export { clientAddress, type ClientAddressOptions } from '../http/client-address.js'
export { crossSite, type CrossSiteOptions } from './cross-site.js'
export {
  bodyBytes, consume, rateLimit, type RateLimitEvent, type RateLimitOptions, type RateLimitPolicy,
} from './rate-limit.js'
export type { LimitBy } from './limit-key.js'
export { limitBody, type LimitBodyOptions } from './limit-body.js'
export { limitHeaders, type LimitHeadersOptions } from './limit-headers.js'
export { limitConcurrency, type LimitConcurrencyOptions } from './limit-concurrency.js'
export { requestId, requestIdOf, type RequestIdOptions } from './request-id.js'
export { timeouts, type TimeoutsOptions } from './timeouts.js'
export { idempotent, type IdempotentOptions } from '../idempotency/policy.js'
export type { KeptResponse, OnceWork } from '../idempotency/once.js'
