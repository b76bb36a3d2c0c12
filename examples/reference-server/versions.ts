import {
  byMediaTypeParameter, byPath, byQuery, byVendorMediaType, versions,
} from 'longhaul/versions'
import {
  describe, errorResponses, operation, response, type Fragment,
} from 'longhaul/openapi'
import { httpError, json, router, type Handler } from 'longhaul'
import { list, strictQuery } from 'longhaul/resources'
import { negotiate, notAcceptable } from 'longhaul/http'
import type { Context } from './auth.js'
import { userShape } from './users/schemas.js'
import type { Users } from './users/repository.js'

/** Number of users on a page. */
const PAGE = 20
/** Query parameter of the version. `versions` reads it, and the handlers of the versions do not. */
const VERSION = ['version']

/** Version 1: the first users and no others, as a bare list with a name for each. */
function firstUsers(users: Users): Handler<Context> {
  const user: Fragment = { type: 'object', required: ['id', 'name'], properties: { id: { type: 'integer' }, name: { type: 'string' } } }
  return strictQuery(describe<Context>(async ({ signal, context, headers }) => {
    if (negotiate(headers['accept'], JSON_ONLY) === undefined) throw notAcceptable(JSON_ONLY)
    const { items } = await users.list({ start: 0, limit: PAGE }, { signal, context })
    return json(200, items.map(({ id, name }) => ({ id, name })), { 'cache-control': 'private, no-cache', 'vary': 'Accept' })
  }, [
    operation('GET', {
      summary: 'The first users',
      responses: { 200: response('Some users', { schema: { type: 'array', items: user } }), ...errorResponses('not_acceptable') },
    }),
    operation('HEAD', {
      summary: 'The header fields of GET',
      responses: { 200: response('As GET would answer'), ...errorResponses('not_acceptable') },
    }),
  ]), { also: VERSION })
}

const JSON_ONLY = ['application/json']

/** Versions of SPEC 9: version 1 is a list with a name for each user; version 2 has pages with complete users. */
export function versionedUsers(users: Users): Handler<Context> {
  const vendor = 'longhaul'
  const pages = strictQuery<Context>(list({ repository: users, batchSize: PAGE, item: userShape }), { also: VERSION })
  const served = versions<Context>({
    '1': {
      handler: router({ 'GET|HEAD /users': firstUsers(users) }),
      deprecated: '2026-07-01T00:00:00Z',
      // The specification of this server asks for an HTTP date, not for the date of RFC 9745.
      format: 'http-date',
      sunset: '2027-06-30T23:59:59Z',
      successor: '/v2/users',
    },
    '2': router({ 'GET|HEAD /users': pages }),
  }, { select: [byPath(), byQuery(), byVendorMediaType({ vendor }), byMediaTypeParameter({ vendor })] })
  return describe<Context>(async (request) => {
    const answer = await served(request)
    // The route takes any first segment, and not every one is a version.
    if (answer === undefined) throw httpError('not_found')
    return answer
  }, served.operations ?? [])
}
