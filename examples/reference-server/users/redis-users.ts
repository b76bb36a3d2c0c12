import { randomUUID } from 'node:crypto'
import { setTimeout as sleep } from 'node:timers/promises'
import type { Redis } from 'ioredis'
import { StoreUnavailableError } from 'longhaul/stores'
import type { PageRequest } from 'longhaul/resources'
import type { MaybePromise } from 'longhaul'
import { MemoryTable, StagedTable } from './memory-table.js'
import { MemoryUsers } from './memory-users.js'
import type { CountedPage, Users } from './repository.js'
import { SerialUsers } from './serial-users.js'
import type { User } from './user.js'

const USERS = 'longhaul-reference:users'
const META = 'longhaul-reference:users-meta'
const LOCK = 'longhaul-reference:users-lock'
/** Time after which the lock of a dead process expires, in milliseconds. */
const LOCK_MS = 10_000
/** Maximum time that a write waits for others, in milliseconds. */
const PATIENCE_MS = 30_000

/** KEYS: users, meta. ARGV: next id, then id and JSON of each. Writes them unless there are users already. */
const SEED = `
if redis.call('EXISTS', KEYS[2]) == 1 then return 0 end
for at = 2, #ARGV, 2 do redis.call('HSET', KEYS[1], ARGV[at], ARGV[at + 1]) end
return redis.call('HSET', KEYS[2], 'next', ARGV[1], 'revision', '1')`
/** KEYS: users, meta, lock. ARGV: token, next id, then id and JSON ('' for none) of each. The new revision, or -1 without the lock. */
const COMMIT = `
if redis.call('GET', KEYS[3]) ~= ARGV[1] then return -1 end
for at = 3, #ARGV, 2 do
  if ARGV[at + 1] == '' then redis.call('HDEL', KEYS[1], ARGV[at]) else redis.call('HSET', KEYS[1], ARGV[at], ARGV[at + 1]) end
end
redis.call('HSET', KEYS[2], 'next', ARGV[2])
return redis.call('HINCRBY', KEYS[2], 'revision', 1)`
/** KEYS: lock. ARGV: token, milliseconds (0 releases it). */
const HOLD = `
if redis.call('GET', KEYS[1]) ~= ARGV[1] then return 0 end
if ARGV[2] == '0' then return redis.call('DEL', KEYS[1]) end
return redis.call('PEXPIRE', KEYS[1], ARGV[2])`

/**
 * Users in a Redis that several processes share. Each process keeps a copy, and a revision shows that it is out of date. One lock
 * allows one write at a time. Suitable for a reference server with some 100 000 users, not for more.
 */
export class RedisUsers extends SerialUsers implements Users {
  readonly shared = true
  readonly #redis: Redis
  readonly #seeded: readonly User[]
  #table = new MemoryTable()
  #revision = '0'

  /** `seeded` are written at the first read, unless there are users, because a process may start before its Redis. */
  constructor(redis: Redis, seeded: readonly User[]) {
    super()
    this.#redis = redis
    this.#seeded = seeded
  }

  async list(page: PageRequest): Promise<CountedPage> {
    return (await this.#read()).list(page)
  }

  async get(id: number): Promise<User | undefined> {
    return (await this.#read()).get(id)
  }

  async* all(role?: string): AsyncGenerator<readonly User[], void, undefined> {
    yield* (await this.#read()).all(role)
  }

  async close(): Promise<void> {
    this.#redis.disconnect()
  }

  async #read(): Promise<MemoryUsers> {
    return new MemoryUsers([], await this.#fresh())
  }

  /** Returns the copy of this process, updated from Redis. */
  async #fresh(): Promise<MemoryTable> {
    const revision = await ask(this.#redis.hget(META, 'revision'))
    if (revision === this.#revision) return this.#table
    if (revision === null) await this.#seed()
    const [users, meta] = await ask(this.#redis.multi().hvals(USERS).hgetall(META).exec()) ?? []
    const table = new MemoryTable()
    const found = (users?.[1] as string[]).map((text) => JSON.parse(text) as User)
    for (const user of found.sort((a, b) => a.id - b.id)) table.put(user)
    const { next = '1', revision: now = '0' } = meta?.[1] as Record<string, string>
    table.skipTo(Number(next))
    this.#revision = now
    return this.#table = table
  }

  async #seed(): Promise<void> {
    const next = Math.max(0, ...this.#seeded.map(({ id }) => id)) + 1
    await ask(this.#redis.eval(SEED, 2, USERS, META, next, ...this.#seeded.flatMap((user) => [user.id, JSON.stringify(user)])))
  }

  protected async transact<T>(work: (users: MemoryUsers) => MaybePromise<T>, signal: AbortSignal): Promise<T> {
    const token = await this.#lock(signal)
    const hold = (ms: number): Promise<unknown> => this.#redis.eval(HOLD, 1, LOCK, token, ms).catch(() => undefined)
    const timer = setInterval(() => { void hold(LOCK_MS) }, LOCK_MS / 3).unref()
    try {
      const table = await this.#fresh()
      const staged = new StagedTable(table)
      const result = await work(new MemoryUsers([], staged))
      const changes = staged.changes().flatMap(([id, user]) => [id, user ? JSON.stringify(user) : ''])
      if (changes.length > 0) {
        const revision = await ask(this.#redis.eval(COMMIT, 3, USERS, META, LOCK, token, table.nextId, ...changes))
        if (revision === -1) throw new StoreUnavailableError('The lock of the users was lost')
        staged.commit()
        this.#table = table
        this.#revision = String(revision)
      }
      return result
    } finally {
      clearInterval(timer)
      await hold(0)
    }
  }

  async #lock(signal: AbortSignal): Promise<string> {
    const token = randomUUID()
    const late = performance.now() + PATIENCE_MS
    for (let wait = 2; ; wait = Math.min(wait * 2, 50)) {
      signal.throwIfAborted()
      if (await ask(this.#redis.set(LOCK, token, 'PX', LOCK_MS, 'NX')) === 'OK') return token
      if (performance.now() > late) throw new StoreUnavailableError('The users are locked')
      await sleep(wait, undefined, { signal })
    }
  }
}

/** Converts an error of Redis to one that gets 503. */
async function ask<T>(answer: Promise<T>): Promise<T> {
  try {
    return await answer
  } catch (cause) {
    throw new StoreUnavailableError('The Redis of the users failed', { cause })
  }
}
