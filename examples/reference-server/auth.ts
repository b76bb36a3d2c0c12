import { createHash, timingSafeEqual } from 'node:crypto'
import { httpError, type HttpRequest, type Policy } from 'longhaul'

/** What somebody may do; each role may do what those before it may. */
const ROLES = ['reader', 'writer', 'admin'] as const

export type Role = (typeof ROLES)[number]

/** Who sent a request. Tasks belong to the subject. */
export interface Principal {
  readonly subject: string
  readonly role: Role
}

/** A bearer token and whom it stands for. */
export interface Token extends Principal {
  readonly token: string
}

/** What handlers of this server know beside the request: who sent it, if that could be told. */
export interface Context {
  readonly principal: Principal | undefined
}

/** RFC 6750 section 2.1: how a token may look. It may end in `=`, so the last one is the separator. */
const ENTRY = /^([A-Za-z0-9._~+/-]+=*)=([^\s=:,]+):([a-z]+)$/
const BEARER = /^Bearer +([A-Za-z0-9._~+/-]+=*)$/i

/**
 * Reads `token=subject:role[,…]`. Throws an `Error` with what to do. It names entries by their number,
 * because a message ends up in logs and a token must not.
 */
export function parseTokens(text: string): Token[] {
  const tokens = text.split(',').map((entry, at): Token => {
    const [, token, subject, name] = ENTRY.exec(entry.trim()) ?? []
    const role = ROLES.find((known) => known === name)
    if (token === undefined || subject === undefined) throw new Error(`entry ${at + 1} is not token=subject:role, as in s3cret=alice:writer.`)
    if (role === undefined) throw new Error(`entry ${at + 1} has no role of ${ROLES.join(', ')}.`)
    return { token, subject, role }
  })
  if (new Set(tokens.map(({ token }) => token)).size < tokens.length) throw new Error('two entries have the same token; take one out.')
  return tokens
}

/** Makes the function that tells whom an Authorization field stands for. */
export function authenticator(tokens: readonly Token[]): (authorization: string | undefined) => Principal | undefined {
  const known = tokens.map(({ token, subject, role }) => ({ digest: digest(token), principal: { subject, role } }))
  return (authorization) => {
    const token = BEARER.exec(authorization ?? '')?.[1]
    if (token === undefined) return undefined
    const given = digest(token)
    let found: Principal | undefined
    // Digests have one length, and all are compared, so the time taken tells nothing about any of them.
    for (const { digest, principal } of known) if (timingSafeEqual(digest, given)) found = principal
    return found
  }
}

const digest = (token: string): Buffer => createHash('sha256').update(token).digest()

/** Reads need `reader`, changes need `writer`. Decided from the head of the request; the body is not read yet. */
export const authorize: Policy<Context> = (request, next) => {
  const { principal } = request.context
  if (!principal) throw httpError('unauthorized', { headers: { 'www-authenticate': challenge(request) } })
  const needed: Role = request.method === 'GET' || request.method === 'HEAD' ? 'reader' : 'writer'
  if (ROLES.indexOf(principal.role) < ROLES.indexOf(needed)) {
    throw httpError('forbidden', { message: `This needs a token with the role ${needed}.` })
  }
  return next(request)
}

/** RFC 6750 section 3: no error code for a request that has no credentials at all. */
function challenge({ headers }: HttpRequest): string {
  return headers['authorization'] === undefined ? 'Bearer realm="longhaul"' : 'Bearer realm="longhaul", error="invalid_token"'
}
