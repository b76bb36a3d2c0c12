// JSON Web Tokens of an OpenID Connect provider as a scheme for `authenticate`.
import { createRemoteJWKSet, errors, jwtVerify } from 'jose'
import { bearer, type Scheme } from 'longhaul/policies'
import { httpError, upstreamError, type Principal } from 'longhaul'

/** The sender of a request, as named by the token. */
export interface User extends Principal {
  readonly scopes: readonly string[]
}

/** The accepted issuer and audience of tokens. */
export interface JwtOptions {
  /** URL of the public keys, such as `https://login.example/jwks.json`. */
  readonly keys: string
  readonly issuer: string
  readonly audience: string
}

/** Errors of jose that mean an invalid token. Its other errors concern the keys, or the request for them. */
const INVALID = [
  errors.JWTInvalid, errors.JWTClaimValidationFailed, errors.JWSInvalid, errors.JWSSignatureVerificationFailed,
  errors.JWKSNoMatchingKey, errors.JWKSMultipleMatchingKeys, errors.JOSENotSupported, errors.JOSEAlgNotAllowed,
]

/** A bearer scheme for signed JWTs. An invalid token is a 401. If the keys cannot be read, the response is 502 or 504. */
export function jwt({ keys, issuer, audience }: JwtOptions): Scheme<User> {
  const known = createRemoteJWKSet(new URL(keys), { timeoutDuration: 3000 })
  return bearer<User>({
    verify: async (token) => {
      try {
        // The algorithms are listed, so that a token cannot select a weaker one.
        const { payload } = await jwtVerify(token, known, { issuer, audience, algorithms: ['RS256', 'ES256'], requiredClaims: ['sub', 'exp'], clockTolerance: 5 })
        const { sub, scope } = payload
        return typeof sub === 'string' && sub !== '' ? { subject: sub, scopes: typeof scope === 'string' ? scope.split(' ') : [] } : undefined
      } catch (error) {
        if (error instanceof errors.JWTExpired) {
          throw httpError('unauthorized', {
            message: 'The token has expired.',
            headers: { 'www-authenticate': 'Bearer error="invalid_token", error_description="The token has expired"' },
          })
        }
        if (INVALID.some((kind) => error instanceof kind)) return undefined
        throw upstreamError(error instanceof errors.JWKSTimeout ? Object.assign(error, { name: 'TimeoutError' }) : error)
      }
    },
  })
}
