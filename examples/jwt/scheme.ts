// JSON Web Tokens of an OpenID Connect provider as a scheme for `authenticate`.
import { createRemoteJWKSet, errors, jwtVerify } from 'jose'
import { bearer, type Scheme } from 'longhaul/policies'
import { upstreamError, type Principal } from 'longhaul'

/** Who sent a request, as the token says. */
export interface User extends Principal {
  readonly scopes: readonly string[]
}

/** Whose tokens count, and for whom they have to be made. */
export interface JwtOptions {
  /** Where the public keys are, such as `https://login.example/jwks.json`. */
  readonly keys: string
  readonly issuer: string
  readonly audience: string
}

/** What is wrong with a token. All else that jose throws is wrong with the keys, or with the way to them. */
const INVALID = [
  errors.JWTInvalid, errors.JWTExpired, errors.JWTClaimValidationFailed, errors.JWSInvalid, errors.JWSSignatureVerificationFailed,
  errors.JWKSNoMatchingKey, errors.JWKSMultipleMatchingKeys, errors.JOSENotSupported, errors.JOSEAlgNotAllowed,
]

/** A bearer scheme for signed JWTs. A token that is not valid is nobody's (401); keys that can't be had are a 502 or a 504. */
export function jwt({ keys, issuer, audience }: JwtOptions): Scheme<User> {
  const known = createRemoteJWKSet(new URL(keys), { timeoutDuration: 3000 })
  return bearer<User>({
    verify: async (token) => {
      try {
        // The algorithms are named, so that a token can't choose a weaker one.
        const { payload } = await jwtVerify(token, known, { issuer, audience, algorithms: ['RS256', 'ES256'], requiredClaims: ['sub', 'exp'], clockTolerance: 5 })
        const { sub, scope } = payload
        return typeof sub === 'string' && sub !== '' ? { subject: sub, scopes: typeof scope === 'string' ? scope.split(' ') : [] } : undefined
      } catch (error) {
        if (INVALID.some((kind) => error instanceof kind)) return undefined
        throw upstreamError(error instanceof errors.JWKSTimeout ? Object.assign(error, { name: 'TimeoutError' }) : error)
      }
    },
  })
}
