import type { MaybePromise } from 'longhaul'
import type { Call, Update } from 'longhaul/resources'
import type { MemoryUsers } from './memory-users.js'
import type { Outcome, Users } from './repository.js'
import type { User, UserChange, UserDraft } from './user.js'

/** The writes of users that several processes share. In this process, one write is made after the other. */
export abstract class SerialUsers {
  /** End of the last write of this process. */
  #turn: Promise<unknown> = Promise.resolve()

  /** Makes one write among those of all processes. Without an outcome nothing is written. */
  protected abstract transact<T>(work: (users: MemoryUsers) => MaybePromise<T>, signal: AbortSignal): Promise<T>

  create(draft: UserDraft, call: Call): Promise<User> {
    return this.#write((users) => users.create(draft), call)
  }

  replace(id: number, draft: UserDraft, call: Call): Promise<{ readonly item: User, readonly created: boolean }> {
    return this.#write((users) => users.replace(id, draft), call)
  }

  update(id: number, change: UserChange, call: Call): Promise<User | undefined> {
    return this.#write((users) => users.update(id, change), call)
  }

  delete(id: number, call: Call): Promise<boolean> {
    return this.#write((users) => users.delete(id), call)
  }

  createMany(drafts: readonly UserDraft[], call: Call): Promise<readonly Outcome<User>[]> {
    return this.#write((users) => users.createMany(drafts), call)
  }

  updateMany(updates: readonly Update<number, UserChange>[], call: Call): Promise<readonly (Outcome<User> | undefined)[]> {
    return this.#write((users) => users.updateMany(updates), call)
  }

  transaction<Result>(work: (inside: Users) => Promise<Result>, call: Call): Promise<Result> {
    return this.#write(work, call)
  }

  /** Resolves once the last write of this process has ended. */
  protected async lastWrite(): Promise<void> {
    await this.#turn
  }

  #write<T>(work: (users: MemoryUsers) => MaybePromise<T>, { signal }: Call): Promise<T> {
    const done = this.#turn.then(() => this.transact(work, signal))
    this.#turn = done.catch(() => undefined)
    return done
  }
}
