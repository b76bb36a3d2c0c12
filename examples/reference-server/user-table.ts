import type { User } from './users.js'

/** Users by id, in the memory of this process. */
export class UserTable {
  readonly #users: Map<number, User>
  #nextId: number

  constructor(users: readonly User[]) {
    this.#users = new Map(users.map((user) => [user.id, user]))
    this.#nextId = users.reduce((most, { id }) => Math.max(most, id), 0) + 1
  }

  get size(): number {
    return this.#users.size
  }

  /** All users, in the order of their ids. */
  all(): User[] {
    return [...this.#users.values()].sort((a, b) => a.id - b.id)
  }

  get(id: number): User | undefined {
    return this.#users.get(id)
  }

  /** Changes what is named of the user with this id, 0 included; creates one where there is none. `undefined` when a new one has no email. */
  upsert({ id, ...named }: Partial<User>): { readonly user: User, readonly created: boolean } | undefined {
    const old = id === undefined ? undefined : this.#users.get(id)
    const email = named.email ?? old?.email
    if (email === undefined) return undefined
    const user: User = { id: id ?? this.#nextId, name: named.name ?? old?.name ?? '', email, role: named.role ?? old?.role ?? 'member' }
    this.#nextId = Math.max(this.#nextId, user.id + 1)
    this.#users.set(user.id, user)
    return { user, created: old === undefined }
  }
}
