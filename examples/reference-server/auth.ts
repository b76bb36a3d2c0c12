import {
  authenticate, authorize as allowing, bearer, tokens as tokenTable,
} from 'longhaul/policies'
import type { HttpRequest, Policy, Principal as Subject } from 'longhaul'

/** Roles. Each role includes the rights of those before it. */
const ROLES = ['reader', 'writer', 'admin'] as const

export type Role = (typeof ROLES)[number]

/** The sender of a request. Tasks belong to the subject. */
export interface Principal extends Subject {
  readonly role: Role
}

/** A bearer token with its subject and role. */
export interface Token extends Principal {
  readonly token: string
}

/** The context of requests: the principal, if the client is authenticated. */
export interface Context {
  readonly principal: Principal | undefined
}

/** RFC 6750 section 2.1: how a token may look. It may end in `=`, so the last one is the separator. */
const ENTRY = /^([A-Za-z0-9._~+/-]+=*)=([^\s=:,]+):([a-z]+)$/

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

/**
 * Authenticates the sender of a request. Refuses nobody, because an unknown path is a 404 for everybody, and
 * some pages are public. `authorize` rejects requests, route by route.
 */
export function identify(tokens: readonly Token[]): Policy<Context> {
  const table = Object.fromEntries(tokens.map(({ token, subject, role }) => [token, { subject, role }]))
  return authenticate<Principal, Context>({ schemes: [bearer({ verify: tokenTable(table) })], optional: true })
}

const READING = ['GET', 'HEAD', 'OPTIONS', 'TRACE']

const needed = ({ method }: HttpRequest): Role => (READING.includes(method) ? 'reader' : 'writer')

/** Reads need `reader`, changes need `writer`. Decided from the head of the request; the body is not read yet. */
export const authorize: Policy<Context> = allowing<Principal, Context>({
  allow: ({ role }, request) => ROLES.indexOf(role) >= ROLES.indexOf(needed(request)),
  reason: (_, request) => `needs_${needed(request)}`,
  message: (_, request) => `This needs a token with the role ${needed(request)}.`,
})

/** Only `admin`, for what shows the tasks of all owners. */
export const operatorsOnly: Policy<Context> = allowing<Principal, Context>({
  allow: ({ role }) => role === 'admin',
  reason: 'needs_admin',
  message: 'This needs a token with the role admin.',
})
