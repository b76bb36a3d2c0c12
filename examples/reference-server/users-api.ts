import { collection, type Collection } from 'longhaul/resources'
import type { Context } from './auth.js'
import type { Users } from './users/repository.js'
import { userChange, userDraft, userShape } from './users/schemas.js'
import type { User, UserChange, UserDraft } from './users/user.js'

/** SPEC 4.1 and 4.2: the users, in pages and one by one. */
export function usersApi(users: Users): Collection<Context> {
  return collection<User, UserDraft, UserChange, number, Context>({
    repository: users, schema: userDraft, changeSchema: userChange, item: userShape, path: '/api/users',
    id: { parse: readId, of: ({ id }) => id },
  })
}

/** Ids in canonical form: `007` and `7.0` are unknown ids. */
function readId(text: string): number | undefined {
  const id = /^(?:0|[1-9][0-9]{0,15})$/.test(text) ? Number(text) : NaN
  return Number.isSafeInteger(id) ? id : undefined
}
