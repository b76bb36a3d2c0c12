import {
  byMediaTypeParameter, byPath, byQuery, byVendorMediaType, httpError, json, router, versions, type Handler, type HttpRequest,
} from 'longhaul'
import type { Context } from './auth.js'
import { seededUsers } from './users.js'

/** How many users a page has. */
const PAGE = 20
const FIRST_PAGE = seededUsers().slice(0, PAGE)

/** A list of its own kind for each version, HEAD and 405 included; what is elsewhere is not ours. */
const list = (shape: (request: HttpRequest<Context>) => unknown): Handler<Context> =>
  router<Context>({ 'GET /users': (request) => json(200, shape(request), { vary: 'Authorization' }) })

/** SPEC 9: version 1 was a bare list with a name for each user; version 2 is an envelope, with everything about each. */
export function versionedUsers(): Handler<Context> {
  const vendor = 'longhaul'
  const served = versions<Context>({
    '1': {
      handler: list(() => FIRST_PAGE.map(({ id, name }) => ({ id, name }))),
      deprecated: '2026-07-01T00:00:00Z',
      sunset: '2027-06-30T23:59:59Z',
      successor: '/v2/users',
    },
    '2': list(() => ({ items: FIRST_PAGE })),
  }, { select: [byPath(), byQuery(), byVendorMediaType({ vendor }), byMediaTypeParameter({ vendor })] })
  return async (request) => {
    const answer = await served(request)
    // The route takes any first segment, and not every one is a version.
    if (answer === undefined) throw httpError('not_found')
    return answer
  }
}
