import { httpError, isHttpError, type HttpError, type MaybePromise } from 'longhaul'
import type { Call, PageRequest, Update } from 'longhaul/resources'
import type { CountedPage, ImportCursors, Outcome, Users } from './repository.js'
import { USER_ROLES, type User, type UserChange, type UserDraft } from './user.js'

/**
 * Refuses unknown roles. The list of roles is a business rule, and not a matter of the schema: a role that is well-formed
 * but unknown is a 422 `unprocessable`, for one user and for each of many.
 */
export class RoleRule implements Users {
  readonly shared: boolean
  readonly #users: Users

  constructor(users: Users) {
    this.#users = users
    this.shared = users.shared
  }

  get imports(): ImportCursors | undefined {
    return this.#users.imports
  }

  list(page: PageRequest, call: Call): MaybePromise<CountedPage> {
    return this.#users.list(page, call)
  }

  get(id: number, call: Call): MaybePromise<User | undefined> {
    return this.#users.get(id, call)
  }

  create(draft: UserDraft, call: Call): MaybePromise<User> {
    return this.#users.create(known(draft), call)
  }

  replace(id: number, draft: UserDraft, call: Call): MaybePromise<{ readonly item: User, readonly created: boolean }> {
    return this.#users.replace(id, known(draft), call)
  }

  update(id: number, change: UserChange, call: Call): MaybePromise<User | undefined> {
    return this.#users.update(id, known(change), call)
  }

  delete(id: number, call: Call): MaybePromise<boolean> {
    return this.#users.delete(id, call)
  }

  createMany(drafts: readonly UserDraft[], call: Call): MaybePromise<readonly Outcome<User>[]> {
    return theGood(drafts, (draft) => draft, (good) => this.#users.createMany(good, call))
  }

  updateMany(updates: readonly Update<number, UserChange>[], call: Call): MaybePromise<readonly (Outcome<User> | undefined)[]> {
    return theGood(updates, ({ change }) => change, (good) => this.#users.updateMany(good, call))
  }

  transaction<Result>(work: (inside: Users) => Promise<Result>, call: Call): Promise<Result> {
    return this.#users.transaction((inside) => work(new RoleRule(inside)), call)
  }

  all(role?: string): Iterable<readonly User[]> | AsyncIterable<readonly User[]> {
    return this.#users.all(role)
  }

  close(): Promise<void> {
    return this.#users.close()
  }
}

function refusal({ role }: UserChange): HttpError | undefined {
  if (role === undefined || USER_ROLES.includes(role)) return undefined
  return httpError('unprocessable', {
    message: 'There is no such role.', details: [{ pointer: '/role', message: `must be one of ${USER_ROLES.join(', ')}` }],
  })
}

function known<T extends UserChange>(change: T): T {
  const refused = refusal(change)
  if (refused) throw refused
  return change
}

/** Writes the records that obey the rule. Returns the outcomes of all, in order. */
async function theGood<T, R>(
  all: readonly T[], changeOf: (each: T) => UserChange, write: (good: readonly T[]) => MaybePromise<readonly R[]>,
): Promise<(R | HttpError)[]> {
  const outcomes: (R | HttpError | undefined)[] = all.map((each) => refusal(changeOf(each)))
  const good = all.filter((_, at) => outcomes[at] === undefined)
  const written = good.length === 0 ? [] : await write(good)
  let next = 0
  return outcomes.map((refused) => (isHttpError(refused) ? refused : written[next++] as R))
}
