import { isHttpError, type MaybePromise } from 'longhaul'
import type { Call, PageRequest, Update } from 'longhaul/resources'
import { MemoryTable, StagedTable, type Table } from './memory-table.js'
import { emailTaken, type CountedPage, type Outcome, type Users } from './repository.js'
import type { User, UserChange, UserDraft } from './user.js'

const PIECE = 500

/** Users in the memory of this process. While a transaction runs, writes from outside of it wait. */
export class MemoryUsers implements Users {
  readonly shared = false
  readonly #table: Table
  #busy: Promise<void> | undefined

  constructor(users: readonly User[], table: Table = new MemoryTable()) {
    this.#table = table
    for (const user of users) table.put(user)
  }

  list({ start, limit }: PageRequest): CountedPage {
    const order = this.#table.order()
    return { items: this.#users(order.slice(start, start + limit)), total: order.length }
  }

  get(id: number): User | undefined {
    return this.#table.get(id)
  }

  create(draft: UserDraft): MaybePromise<User> {
    return this.#write(() => orThrow(this.#create(draft)))
  }

  replace(id: number, draft: UserDraft): MaybePromise<{ readonly item: User, readonly created: boolean }> {
    return this.#write(() => {
      const created = this.#table.get(id) === undefined
      return { item: orThrow(this.#put(whole(id, draft))), created }
    })
  }

  update(id: number, change: UserChange): MaybePromise<User | undefined> {
    return this.#write(() => orThrow(this.#update({ id, change })))
  }

  delete(id: number): MaybePromise<boolean> {
    return this.#write(() => this.#table.remove(id))
  }

  createMany(drafts: readonly UserDraft[]): MaybePromise<readonly Outcome<User>[]> {
    return this.#write(() => drafts.map((draft) => this.#create(draft)))
  }

  updateMany(updates: readonly Update<number, UserChange>[]): MaybePromise<readonly (Outcome<User> | undefined)[]> {
    return this.#write(() => updates.map((update) => this.#update(update)))
  }

  async transaction<Result>(work: (inside: Users) => Promise<Result>, { signal }: Call): Promise<Result> {
    while (this.#busy) await this.#busy
    signal.throwIfAborted()
    const staged = new StagedTable(this.#table)
    let finish = (): void => {}
    this.#busy = new Promise((resolve) => { finish = resolve })
    try {
      const result = await work(new MemoryUsers([], staged))
      staged.commit()
      return result
    } finally {
      this.#busy = undefined
      finish()
    }
  }

  * all(role?: string): Generator<User[], void, undefined> {
    const order = this.#table.order()
    for (let at = 0; at < order.length; at += PIECE) {
      const users = this.#users(order.slice(at, at + PIECE))
      yield role === undefined ? users : users.filter((user) => user.role === role)
    }
  }

  async close(): Promise<void> {}

  #users(ids: readonly number[]): User[] {
    return ids.flatMap((id) => this.#table.get(id) ?? [])
  }

  #create(draft: UserDraft): Outcome<User> {
    // A rejected draft takes no id.
    return this.#table.idOf(draft.email) === undefined ? this.#put(whole(this.#table.newId(), draft)) : emailTaken()
  }

  #update({ id, change: { name, email, role } }: Update<number, UserChange>): Outcome<User> | undefined {
    const old = this.#table.get(id)
    return old && this.#put({ id, name: name ?? old.name, email: email ?? old.email, role: role ?? old.role })
  }

  #put(user: User): Outcome<User> {
    const holder = this.#table.idOf(user.email)
    if (holder !== undefined && holder !== user.id) return emailTaken()
    this.#table.put(user)
    return user
  }

  #write<T>(work: () => T): MaybePromise<T> {
    return this.#busy ? this.#busy.then(() => this.#write(work)) : work()
  }
}

function whole(id: number, { name = '', email, role = 'viewer' }: UserDraft): User {
  return { id, name, email, role }
}

function orThrow<T>(outcome: Outcome<T>): T {
  if (isHttpError(outcome)) throw outcome
  return outcome
}
