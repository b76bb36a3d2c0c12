import {
  byMediaTypeParameter, byPath, byQuery, byVendorMediaType, describe, fields, httpError, json, operation, response, router, versions,
  type Fragment, type Handler,
} from 'longhaul'
import type { Context } from './auth.js'
import type { Users } from './users/repository.js'
import type { User } from './users/user.js'

/** How many users a page has. */
const PAGE = 20

/** A list of its own kind for each version, HEAD and 405 included; what is elsewhere is not ours. */
const list = (users: Users, shape: (page: readonly User[]) => unknown, schema: Fragment): Handler<Context> => router<Context>({
  'GET /users': describe<Context>(async ({ signal, context }) => {
    const { items } = await users.list({ start: 0, limit: PAGE }, { signal, context })
    return json(200, shape(items), { vary: 'Authorization' })
  }, [operation('GET', { summary: 'The first users', responses: { 200: response('Some users', { headers: fields('Vary'), schema }) } })]),
})

/** SPEC 9: version 1 was a bare list with a name for each user; version 2 is an envelope, with everything about each. */
export function versionedUsers(users: Users): Handler<Context> {
  const vendor = 'longhaul'
  const served = versions<Context>({
    '1': {
      handler: list(users, (page) => page.map(({ id, name }) => ({ id, name })), { type: 'array', items: userSchema('id', 'name') }),
      deprecated: '2026-07-01T00:00:00Z',
      sunset: '2027-06-30T23:59:59Z',
      successor: '/v2/users',
    },
    '2': list(users, (items) => ({ items }), { type: 'object', required: ['items'], properties: { items: { type: 'array', items: userSchema('id', 'name', 'email', 'role') } } }),
  }, { select: [byPath(), byQuery(), byVendorMediaType({ vendor }), byMediaTypeParameter({ vendor })] })
  return describe<Context>(async (request) => {
    const answer = await served(request)
    // The route takes any first segment, and not every one is a version.
    if (answer === undefined) throw httpError('not_found')
    return answer
  }, served.operations ?? [])
}

function userSchema(...names: string[]): Fragment {
  return { type: 'object', required: names, properties: Object.fromEntries(names.map((name) => [name, { type: name === 'id' ? 'integer' : 'string' }])) }
}
