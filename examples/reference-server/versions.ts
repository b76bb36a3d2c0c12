import {
  byMediaTypeParameter, byPath, byQuery, byVendorMediaType, httpError, json, router, versions, type Handler,
} from 'longhaul'
import type { Context } from './auth.js'
import type { Users } from './users/repository.js'
import type { User } from './users/user.js'

/** How many users a page has. */
const PAGE = 20

/** A list of its own kind for each version, HEAD and 405 included; what is elsewhere is not ours. */
const list = (users: Users, shape: (page: readonly User[]) => unknown): Handler<Context> => router<Context>({
  'GET /users': async ({ signal, context }) => {
    const { items } = await users.list({ start: 0, limit: PAGE }, { signal, context })
    return json(200, shape(items), { vary: 'Authorization' })
  },
})

/** SPEC 9: version 1 was a bare list with a name for each user; version 2 is an envelope, with everything about each. */
export function versionedUsers(users: Users): Handler<Context> {
  const vendor = 'longhaul'
  const served = versions<Context>({
    '1': {
      handler: list(users, (page) => page.map(({ id, name }) => ({ id, name }))),
      deprecated: '2026-07-01T00:00:00Z',
      sunset: '2027-06-30T23:59:59Z',
      successor: '/v2/users',
    },
    '2': list(users, (items) => ({ items })),
  }, { select: [byPath(), byQuery(), byVendorMediaType({ vendor }), byMediaTypeParameter({ vendor })] })
  return async (request) => {
    const answer = await served(request)
    // The route takes any first segment, and not every one is a version.
    if (answer === undefined) throw httpError('not_found')
    return answer
  }
}
