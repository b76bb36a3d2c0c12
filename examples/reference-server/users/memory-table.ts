import { emailKey, type User } from './user.js'
import { HIGHEST_OWN_ID } from './repository.js'

/** A table of users by id, with unique emails. */
export interface Table {
  get(id: number): User | undefined
  /** Returns the id of the user with this email. */
  idOf(email: string): number | undefined
  put(user: User): void
  remove(id: number): boolean
  /** The id for a new user. */
  newId(): number
  /** All ids, from the lowest. Read-only. */
  order(): readonly number[]
}

/** The committed users, and their order. */
export class MemoryTable implements Table {
  readonly #users = new Map<number, User>()
  readonly #ids = new Map<string, number>()
  #order: number[] | undefined = []
  #next = 1

  get(id: number): User | undefined {
    return this.#users.get(id)
  }

  idOf(email: string): number | undefined {
    return this.#ids.get(emailKey(email))
  }

  put(user: User): void {
    const { id, email } = user
    const old = this.#users.get(id)
    if (old) this.#ids.delete(emailKey(old.email))
    else if (this.#order && id > (this.#order.at(-1) ?? -1)) this.#order.push(id)
    else this.#order = undefined
    this.#users.set(id, user)
    this.#ids.set(emailKey(email), id)
    if (id < HIGHEST_OWN_ID) this.#next = Math.max(this.#next, id + 1)
  }

  remove(id: number): boolean {
    const old = this.#users.get(id)
    if (!old) return false
    this.#users.delete(id)
    this.#ids.delete(emailKey(old.email))
    this.#order = undefined
    return true
  }

  newId(): number {
    return this.#next++
  }

  /** The next id of a new user. */
  get nextId(): number {
    return this.#next
  }

  /** Sets the lowest id for new users. */
  skipTo(next: number): void {
    this.#next = Math.max(this.#next, next)
  }

  order(): readonly number[] {
    return this.#order ??= [...this.#users.keys()].sort((a, b) => a - b)
  }
}

/** The uncommitted changes of a transaction. */
export class StagedTable implements Table {
  readonly #base: Table
  readonly #users = new Map<number, User | undefined>()
  /** `undefined`: the email is free. */
  readonly #ids = new Map<string, number | undefined>()

  constructor(base: Table) {
    this.#base = base
  }

  get(id: number): User | undefined {
    return this.#users.has(id) ? this.#users.get(id) : this.#base.get(id)
  }

  idOf(email: string): number | undefined {
    const key = emailKey(email)
    return this.#ids.has(key) ? this.#ids.get(key) : this.#base.idOf(email)
  }

  put(user: User): void {
    this.remove(user.id)
    this.#users.set(user.id, user)
    this.#ids.set(emailKey(user.email), user.id)
  }

  remove(id: number): boolean {
    const old = this.get(id)
    if (!old) return false
    this.#users.set(id, undefined)
    this.#ids.set(emailKey(old.email), undefined)
    return true
  }

  newId(): number {
    for (;;) {
      const id = this.#base.newId()
      if (this.get(id) === undefined) return id
    }
  }

  order(): readonly number[] {
    const kept = this.#base.order().filter((id) => !this.#users.has(id))
    for (const [id, user] of this.#users) if (user) kept.push(id)
    return kept.sort((a, b) => a - b)
  }

  /** Changed users by id; `undefined` for deleted ones. */
  changes(): [number, User | undefined][] {
    return [...this.#users]
  }

  /** Commits the changes. */
  commit(): void {
    // Deletions first, because other users may have their emails now.
    for (const id of this.#users.keys()) this.#base.remove(id)
    for (const user of [...this.#users.values()].sort((a, b) => (a?.id ?? 0) - (b?.id ?? 0))) if (user) this.#base.put(user)
  }
}
