import { httpError, type HttpError, type MaybePromise } from 'longhaul'
import type { Call, Page, PageRequest, Repository } from 'longhaul/resources'
import type { User, UserChange, UserDraft } from './user.js'

type Whole = Required<Repository<User, UserDraft, UserChange, number>>

/** The users of this server, wherever they are: each method of the contract, and what export and start need. */
export interface Users extends Whole {
  /** Whether other processes see these users too. */
  readonly shared: boolean
  /** By position, and always counted. */
  list(page: PageRequest, call: Call): MaybePromise<CountedPage>
  transaction<Result>(work: (inside: Users) => Promise<Result>, call: Call): Promise<Result>
  /** All users, or those with this role, in the order of their ids and in arrays of some hundreds. What changes meanwhile may show or not. */
  all(role?: string): Iterable<readonly User[]> | AsyncIterable<readonly User[]>
  close(): Promise<void>
}

export type CountedPage = Page<User> & { readonly total: number }

/** Users with an id above this don't move the ids of new ones on, so that nobody can use them up. */
export const HIGHEST_OWN_ID = 2 ** 52

/** Somebody else has this email. */
export function emailTaken(): HttpError {
  return httpError('conflict', {
    message: 'There is a user with this email already.', details: [{ pointer: '/email', message: 'is taken' }],
  })
}

/** A call of this server's own, which nobody interrupts. */
export function ownCall(): Call {
  return { signal: new AbortController().signal, context: undefined }
}
