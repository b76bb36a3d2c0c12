import assert from 'node:assert/strict'
import { join } from 'node:path'
import { after, before, describe, test } from 'node:test'
import { bulkCreate, bulkUpdate, type BulkItem, type BulkReport } from 'longhaul/bulk'
import type { Call } from 'longhaul/resources'
import type { Handler } from 'longhaul'
import type { Database } from '../../../examples/reference-server/users/database.js'
import { MemoryUsers } from '../../../examples/reference-server/users/memory-users.js'
import { openSqliteUsers } from '../../../examples/reference-server/users/open-sqlite.js'
import { openPostgres } from '../../../examples/reference-server/users/postgres.js'
import type { Outcome, Users } from '../../../examples/reference-server/users/repository.js'
import { userDraft, userRole, type UserRoleChange } from '../../../examples/reference-server/users/schemas.js'
import { seededUsers } from '../../../examples/reference-server/users/seed.js'
import { SqlUsers } from '../../../examples/reference-server/users/sql-users.js'
import { createTable } from '../../../examples/reference-server/users/table.js'
import { emailKey, type User, type UserDraft } from '../../../examples/reference-server/users/user.js'
import { startPostgres, type PostgresServer } from '../../servers/postgres-server.js'
import { openSqlite, sqliteFolder } from '../../servers/sqlite.js'
import { fakeRequest } from '../../unit/kit/request.js'

const EXPLODES = 'explodes'
const AT = 516

/** Fails for one name, in the middle of what it writes. */
class ExplodingUsers extends MemoryUsers {
  override async createMany(drafts: readonly UserDraft[]): Promise<readonly Outcome<User>[]> {
    const outcomes: Outcome<User>[] = []
    for (const draft of drafts) {
      if (draft.name === EXPLODES) throw new Error('secret')
      outcomes.push(...await super.createMany([draft]))
    }
    return outcomes
  }

  override async create(draft: UserDraft): Promise<User> {
    if (draft.name === EXPLODES) throw new Error('secret')
    return super.create(draft)
  }

  override async transaction<R>(work: (inside: Users) => Promise<R>, call: Call): Promise<R> {
    return super.transaction(
      (inside) =>
        work(
          Object.assign({ updateMany: inside.updateMany.bind(inside) } as unknown as Users, {
            createMany: async (drafts: readonly UserDraft[]) => {
              const at = drafts.findIndex(({ name }) => name === EXPLODES)
              const outcomes = await inside.createMany(at < 0 ? drafts : drafts.slice(0, at), call)
              if (at >= 0) throw new Error('secret')
              return outcomes
            },
            create: async (draft: UserDraft) => {
              if (draft.name === EXPLODES) throw new Error('secret')
              return inside.create(draft, call)
            },
          }),
        ),
      call,
    )
  }
}

/** Users in a database that fails for one name by itself. */
async function exploding(db: Database): Promise<Users> {
  await createTable(db, seededUsers())
  await db.query(`CREATE FUNCTION explode() RETURNS trigger LANGUAGE plpgsql AS $$
    BEGIN IF NEW.name = '${EXPLODES}' THEN RAISE EXCEPTION 'secret'; END IF; RETURN NEW; END $$`)
  await db.query(
    'CREATE TRIGGER explode BEFORE INSERT OR UPDATE ON longhaul_users FOR EACH ROW EXECUTE FUNCTION explode()',
  )
  return new SqlUsers(db)
}

let made = 0
const drafts = (count: number): UserDraft[] =>
  Array.from({ length: count }, (_, at) => ({ name: `Nr ${at}`, email: `Bulk-${++made}@example.org` }))
/** A thousand, of which the 517th explodes. */
const thousand = (): UserDraft[] => drafts(1000).map((draft, at) => (at === AT ? { ...draft, name: EXPLODES } : draft))

type Told = BulkReport & {
  readonly status: number
  readonly code?: string
  readonly items: BulkItem[]
  readonly position?: { readonly item: number }
}

async function send(handler: Handler, body: unknown, more: Record<string, string> = {}): Promise<Told> {
  const text = typeof body === 'string' ? body : JSON.stringify(body)
  const method = text.startsWith('[') ? 'POST' : 'PATCH'
  const answer = await handler({
    ...fakeRequest({
      body: text,
      headers: { 'content-type': 'application/json', 'content-length': String(Buffer.byteLength(text)), ...more },
    }),
    method,
  })
  let told = ''
  if (typeof answer?.body === 'string') told = answer.body
  else
    for await (const piece of answer?.body as AsyncIterable<Uint8Array | string>)
      told += typeof piece === 'string' ? piece : Buffer.from(piece).toString()
  assert.doesNotMatch(told, /secret/)
  return { ...JSON.parse(told) as Told, status: answer?.status ?? 0 }
}

async function everybody(users: Users): Promise<User[]> {
  const all: User[] = []
  for await (const some of users.all()) all.push(...some)
  return all
}

/** The emails that are there now and were not before. */
async function added(users: Users, before: readonly User[]): Promise<string[]> {
  const old = new Set(before.map(({ id }) => id))
  const now = await everybody(users)
  assert.deepEqual(now.filter(({ id }) => old.has(id)), before)
  return now.filter(({ id }) => !old.has(id)).map(({ email }) => email).sort()
}

const emailsOf = (some: readonly UserDraft[]): string[] => some.map(({ email }) => email).sort()
const common = { schema: userDraft, key: ({ email }: UserDraft) => emailKey(email), onError: () => undefined }

function bulkSuite(open: () => Promise<Users>, statement: boolean): void {
  const oneByOne = (users: Users) => ({
    create: users.create.bind(users),
    transaction: <R>(work: (inside: Pick<Users, 'create'>) => Promise<R>, call: Call) =>
      users.transaction((inside) => work({ create: inside.create.bind(inside) }), call),
  })
  const streamed = { streamAboveBytes: 1000 }

  for (const [how, options] of [['a small body', {}], ['a streamed body', streamed]] as const) {
    test(`SPEC 4.3, 7.4: partial, ${how}: the item that throws has an unknown outcome, and 999 others are written`, async () => {
      const users = await open()
      const [before, body] = [await everybody(users), thousand()]
      const { status, items, summary } = await send(
        bulkCreate<User, UserDraft>({ ...common, ...options, repository: oneByOne(users) }),
        body,
      )
      assert.deepEqual([status, summary], [207, { total: 1000, succeeded: 999, failed: 1 }])
      assert.deepEqual(items.map(({ index, status: its, error }) => [index, its, error?.code]),
        body.map((_, at) => (at === AT ? [at, 500, 'write_outcome_unknown'] : [at, 201, undefined])))
      assert.deepEqual(await added(users, before), emailsOf(body.filter((_, at) => at !== AT)))
      const byId = new Map((await everybody(users)).map((user) => [user.id, user.email]))
      assert.ok(
        items.every(({ index, id }) => id === undefined || byId.get(id as number) === body[index]?.email),
        'an id is that of another',
      )
    })
    test(`SPEC 4.4.1: atomic, ${how}: nothing is changed`, async () => {
      const users = await open()
      const before = await everybody(users)
      for (const repository of [users, oneByOne(users)]) {
        const { status, code, items, summary } = await send(
          bulkCreate<User, UserDraft>({ ...common, ...options, atomic: true, repository }),
          thousand(),
        )
        assert.deepEqual([status, code, summary], [500, 'internal_error', { total: 1000, succeeded: 0, failed: 1000 }])
        assert.deepEqual(items.map(({ index }) => index), items.map((_, at) => at))
        assert.ok(
          items.every(({ index, status: its }) => its === (index === AT && repository !== users ? 500 : 424)),
          'one is told something else',
        )
        assert.deepEqual(await everybody(users), before)
      }
    })
  }
  test('SPEC 4.3, 4.4.1: a large body that breaks off writes nothing', async () => {
    const users = await open()
    const text = JSON.stringify(drafts(3000)).slice(0, 150_000)
    const before = await everybody(users)
    for (const atomic of [true, false]) {
      const handler = bulkCreate<User, UserDraft>({ ...common, ...streamed, atomic, repository: users })
      await assert.rejects(send(handler, text), { status: 400, code: 'malformed_json' })
      assert.deepEqual(await everybody(users), before)
    }
  })
  for (const streamAboveBytes of [0, 1_000_000]) {
    test(`SPEC 4.4.1: an atomic update names all items to correct in one response: unknown users and invalid items (${streamAboveBytes})`, async () => {
      const users = await open()
      const before = await everybody(users)
      const handler = bulkUpdate<UserRoleChange, Partial<User>, number>({
        schema: userRole,
        repository: users,
        id: ({ userId }) => userId,
        change: ({ role }) => ({ role }),
        batchSize: 300,
        streamAboveBytes,
      })
      const updates: object[] = before.slice(0, 1000).map(({ id }) => ({ userId: id, role: 'viewer' }))
      updates[0] = { userId: 1, role: 7 }
      updates[10] = updates[450] = { userId: 999_999_999, role: 'viewer' }
      updates[999] = { userId: 999_999_998, role: 'viewer' }
      const { status, code, items } = await send(handler, { updates })
      assert.deepEqual([status, code, items.length], [422, 'batch_failed', 1000])
      const named = items
        .filter(({ status: its }) => its !== 424)
        .map(({ index, status: its, error }) => [index, its, error?.code])
      assert.deepEqual(named, [
        [0, 400, 'invalid_input'],
        [10, 404, 'not_found'],
        [450, 409, 'duplicate_item'],
        [999, 404, 'not_found'],
      ])
      assert.deepEqual(await everybody(users), before)
    })
  }
  test('SPEC 7.4: items of a failed statement have an unknown outcome, and all others are written', async () => {
    const users = await open()
    const [before, body] = [await everybody(users), thousand()]
    const { status, items } = await send(
      bulkCreate<User, UserDraft>({
        ...common,
        repository: { createMany: users.createMany.bind(users) },
        batchSize: 100,
      }),
      body,
    )
    assert.equal(status, 207)
    const unknown = (at: number): boolean => at >= 500 && at < 600
    assert.deepEqual(
      items.map(({ index, status: its }) => [index, its]),
      body.map((_, at) => [at, unknown(at) ? 500 : 201]),
    )
    const there = await added(users, before)
    assert.deepEqual(there, emailsOf(body.filter((_, at) => !unknown(at) || (!statement && at < AT))))
  })
  test('SPEC 4.3.1, 7.4: each item of a mixed batch is reported once and in order', async () => {
    const users = await open()
    const before = await everybody(users)
    const fresh = drafts(300)
    const kinds: readonly [items: readonly unknown[], status: number][] = [
      [fresh, 201],
      [fresh.slice(0, 50).map(({ email }) => ({ email: email?.toUpperCase() })), 409],
      [before.slice(0, 50).map(({ email }) => ({ email })), 409],
      [before.slice(50, 60), 400],
      [drafts(50).map(({ name }) => ({ name })), 400],
      [[null, 7, 'x', [], { email: 7 }], 400],
      [drafts(20).map((draft) => ({ ...draft, name: EXPLODES })), 500],
    ]
    // The first of two wins, so those that are there twice come behind; everything else is dealt out.
    const order = kinds.flatMap(([items, status], kind) =>
      items.map((item, at) => ({ item, status, place: ((at * 7919) % 997) + (kind === 1 ? 1000 : 0) })),
    )
    order.sort((one, other) => one.place - other.place)
    const { status, items } = await send(
      bulkCreate<User, UserDraft>({ ...common, repository: oneByOne(users) }),
      order.map(({ item }) => item),
    )
    assert.equal(status, 207)
    assert.deepEqual(items.map(({ index, status: its }) => [index, its]), order.map((its, at) => [at, its.status]))
    assert.deepEqual(await added(users, before), emailsOf(fresh))
  })
  test('SPEC 4.4.1, 4.4.2: an update of a thousand items with one unknown user writes none or 999', async () => {
    const users = await open()
    const handler = (atomic: boolean | 'if-possible') => bulkUpdate<UserRoleChange, Partial<User>, number>({
      schema: userRole, repository: users, atomic, id: ({ userId }) => userId, change: ({ role }) => ({ role }),
    })
    const before = await everybody(users)
    const updates = before.slice(0, 1000).map(({ id }, at) => ({ userId: at === AT ? 999_999_999 : id, role: 'viewer' }))
    const none = await send(handler(true), { updates })
    assert.deepEqual(
      [none.status, none.items.map(({ status }) => status)],
      [422, updates.map((_, at) => (at === AT ? 404 : 424))],
    )
    assert.deepEqual(await everybody(users), before)
    const some = await send(handler(false), { updates })
    assert.deepEqual([some.status, some.summary], [207, { total: 1000, succeeded: 999, failed: 1 }])
    assert.deepEqual(await everybody(users), before.map((user, at) => (at < 1000 && at !== AT ? { ...user, role: 'viewer' } : user)))
  })
  test('SPEC 4.4.2: Prefer: handling=lenient writes 999 of a thousand items that are atomic by default', async () => {
    const users = await open()
    const handler = bulkUpdate<UserRoleChange, Partial<User>, number>({
      schema: userRole, repository: users, id: ({ userId }) => userId, change: ({ role }) => ({ role }),
    })
    const before = await everybody(users)
    const updates = before
      .slice(0, 1000)
      .map(({ id }, at) => ({ userId: at === AT ? 999_999_999 : id, role: 'viewer' }))
    const some = await send(handler, { updates }, { prefer: 'handling=lenient' })
    assert.deepEqual(
      [some.status, some.summary, some.items[AT]?.status],
      [207, { total: 1000, succeeded: 999, failed: 1 }, 404],
    )
    assert.deepEqual(
      await everybody(users),
      before.map((user, at) => (at < 1000 && at !== AT ? { ...user, role: 'viewer' } : user)),
    )
  })
}

describe('batches of users in memory', () => {
  const users = new ExplodingUsers(seededUsers())
  bulkSuite(async () => users, false)
})

describe('batches of users in a file of SQLite', () => {
  const path = join(sqliteFolder(), 'data.db')
  let users: Users
  before(async () => {
    users = await openSqliteUsers(path)
    const database = openSqlite(path)
    database.exec(`CREATE TRIGGER explode BEFORE INSERT ON reference_users WHEN new.name = '${EXPLODES}'
      BEGIN SELECT raise(ABORT, 'secret'); END`)
    database.close()
  })
  after(() => users.close())
  bulkSuite(async () => users, true)
})

describe('batches of users in a PostgreSQL', () => {
  let server: PostgresServer
  let db: Database
  let users: Users
  before(async () => {
    server = await startPostgres()
    db = openPostgres(server.url)
    users = await exploding(db)
  })
  after(async () => {
    await db.close()
    await server.stop()
  })
  bulkSuite(async () => users, true)
})
