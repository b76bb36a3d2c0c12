import { httpError, type HttpError, type MaybePromise } from 'longhaul'
import type { Call, Page, PageRequest, Repository, Update } from 'longhaul/resources'
import type { User, UserChange, UserDraft } from './user.js'

type Whole = Required<Repository<User, UserDraft, UserChange, number>>

/** The users of this server in any database: all methods of the contract, and those that the export and the start need. */
export interface Users extends Whole {
  /** True if other processes share these users. */
  readonly shared: boolean
  /** Cursors of imports, which commit with the users. Absent in a database without such transactions. */
  readonly imports?: ImportCursors | undefined
  /** Lists users by position, with their total. */
  list(page: PageRequest, call: Call): MaybePromise<CountedPage>
  get(id: number, call: Call): MaybePromise<User | undefined>
  update(id: number, change: UserChange, call: Call): MaybePromise<User | undefined>
  delete(id: number, call: Call): MaybePromise<boolean>
  createMany(drafts: readonly UserDraft[], call: Call): MaybePromise<readonly Outcome<User>[]>
  updateMany(updates: readonly Update<number, UserChange>[], call: Call): MaybePromise<readonly (Outcome<User> | undefined)[]>
  transaction<Result>(work: (inside: Users) => Promise<Result>, call: Call): Promise<Result>
  /** Returns all users, or those with this role, ordered by id, in arrays of some hundreds. Concurrent changes may be missing. */
  all(role?: string): Iterable<readonly User[]> | AsyncIterable<readonly User[]>
  close(): Promise<void>
}

/** A written user, or the error that rejects it. */
export type Outcome<Item> = Item | HttpError

export interface ImportCursors {
  /** Returns the cursor that was stored last. Waits for a transaction that replaces it. */
  read(taskId: string): Promise<string | undefined>
  /** Stores a cursor, in a transaction of users. Throws `attempt_replaced` unless `previous` is stored. */
  replace(taskId: string, cursor: string, previous: string | undefined): Promise<void>
}

export type CountedPage = Page<User> & { readonly total: number }

/** Larger ids do not advance the ids of new users, so that a client cannot exhaust them. */
export const HIGHEST_OWN_ID = 2 ** 52

/** The error for an email that another user has. */
export function emailTaken(): HttpError {
  return httpError('conflict', {
    message: 'There is a user with this email already.', details: [{ pointer: '/email', message: 'is taken' }],
  })
}

/** A call by the server itself, which is never aborted. */
export function ownCall(): Call {
  return { signal: new AbortController().signal, context: undefined }
}
