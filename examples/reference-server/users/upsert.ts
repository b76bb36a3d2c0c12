import { httpError, isHttpError, type MaybePromise } from 'longhaul'
import type { Call } from 'longhaul/resources'
import type { RecordOutcome } from 'longhaul/ndjson'
import type { Outcome, Users } from './repository.js'
import type { User, UserChange, UserDraft } from './user.js'

type Written = { readonly user: Outcome<User>, readonly created: boolean }

/** Changes the users with these ids, 0 included, and creates the others. Returns an outcome for each record, in order. */
export async function upsertUsers(users: Users, records: readonly Partial<User>[], call: Call): Promise<RecordOutcome[]> {
  const written = new Map<number, Written>()
  const known = records.flatMap(({ id, ...change }, at) => (id === undefined ? [] : { at, id, change }))
  const changed = await users.updateMany(known, call)
  // Several lines may concern one new user.
  const made = new Set<number>()
  for (const [index, { at, id, change }] of known.entries()) {
    const user = changed[index]
    if (user !== undefined) written.set(at, { user, created: false })
    else {
      const later = made.has(id) ? await one(() => users.update(id, change, call)) : undefined
      const done = later ? { user: later, created: false } : await make(users, id, change, call)
      if (done) made.add(id)
      if (done) written.set(at, done)
    }
  }
  const fresh = records.flatMap(({ id, email, ...rest }, at) => (id === undefined && email !== undefined ? { at, draft: { ...rest, email } } : []))
  const created = fresh.length === 0 ? [] : await users.createMany(fresh.map(({ draft }) => draft), call)
  for (const [index, { at }] of fresh.entries()) {
    const user = created[index]
    if (user !== undefined) written.set(at, { user, created: true })
  }
  return records.map((_, at) => outcomeOf(written.get(at)))
}

async function make(users: Users, id: number, { email, ...rest }: UserChange, call: Call): Promise<Written | undefined> {
  if (email === undefined) return undefined
  const draft: UserDraft = { ...rest, email }
  const done = await one(() => users.replace(id, draft, call))
  return isHttpError(done) ? { user: done, created: false } : { user: done.item, created: done.created }
}

/** Returns a rejection as a value, and throws other errors. */
async function one<T>(write: () => MaybePromise<T>): Promise<Outcome<T>> {
  try {
    return await write()
  } catch (error) {
    if (isHttpError(error) && error.status === 409) return error
    throw error
  }
}

function outcomeOf(written: Written | undefined): RecordOutcome {
  if (written === undefined) return { status: 400, error: { code: httpError('invalid_input').code, message: 'A new user needs an email.' } }
  const { user, created } = written
  if (!isHttpError(user)) return { status: created ? 201 : 200, id: user.id }
  const { status, code, message, details } = user
  return { status, error: { code, message, ...details && { details } } }
}
