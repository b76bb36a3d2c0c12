// What the users of the reference server do, wherever they are.
import assert from 'node:assert/strict'
import { test } from 'node:test'
import { isHttpError } from 'longhaul'
import type { Outcome } from 'longhaul/resources'
import { ownCall, type Users } from '../../../../examples/reference-server/users/repository.js'
import { seededUsers } from '../../../../examples/reference-server/users/seed.js'
import { upsertUsers } from '../../../../examples/reference-server/users/upsert.js'
import type { User } from '../../../../examples/reference-server/users/user.js'

export function usersSuite(open: () => Promise<Users>, shared: boolean): void {
  const call = ownCall()
  let count = 0
  /** No test sees another's users. */
  const mail = (name: string): string => `${name}-${++count}@suite.example`
  const codes = (outcomes: readonly (Outcome<object> | undefined)[]): unknown[] =>
    outcomes.map((outcome) => (isHttpError(outcome) ? outcome.status : outcome === undefined ? undefined : 'written'))
  const everybody = async (users: Users, role?: string): Promise<User[]> => {
    const all: User[] = []
    for await (const some of users.all(role)) all.push(...some)
    return all
  }
  const taken = (error: unknown): boolean =>
    isHttpError(error) && error.code === 'conflict' && error.details?.[0]?.pointer === '/email'

  test('can be listed, by page and all at once', async () => {
    const users = await open()
    assert.equal(users.shared, shared)
    const seeded = seededUsers()
    assert.deepEqual((await users.list({ start: 10, limit: 5 }, call)).items, seeded.slice(10, 15))
    const { items, total } = await users.list({ start: 1_000_000, limit: 5 }, call)
    assert.deepEqual([items, total >= seeded.length], [[], true])
    assert.deepEqual((await everybody(users)).slice(0, seeded.length), seeded)
    assert.ok((await everybody(users, 'admin')).every(({ role }) => role === 'admin'))
    assert.deepEqual(await users.get(7, call), seeded[6])
    assert.equal(await users.get(Number.MAX_SAFE_INTEGER, call), undefined)
  })
  test('can be created, replaced, updated and deleted', async () => {
    const users = await open()
    const email = mail('Ann')
    const ann = await users.create({ email }, call)
    assert.deepEqual(ann, { id: ann.id, name: '', email, role: 'viewer' })
    assert.deepEqual(await users.get(ann.id, call), ann)
    assert.deepEqual(await users.update(ann.id, { name: 'Ann' }, call), { ...ann, name: 'Ann' })
    assert.deepEqual(await users.replace(ann.id, { email, role: 'editor' }, call), {
      item: { ...ann, role: 'editor' },
      created: false,
    })
    assert.equal(await users.update(987_654, { name: 'x' }, call), undefined)
    assert.equal(await users.delete(ann.id, call), true)
    assert.equal(await users.delete(ann.id, call), false)
    assert.equal(await users.get(ann.id, call), undefined)
    assert.ok((await users.create({ email }, call)).id > ann.id, 'an id came back, or its email did not become free')
  })
  test('get a rejection for an email of another user, in upper and lower case', async () => {
    const users = await open()
    const [one, two] = [mail('One'), mail('Two')]
    const first = await users.create({ email: one }, call)
    const second = await users.create({ email: two }, call)
    await assert.rejects(async () => users.create({ email: one.toUpperCase() }, call), taken)
    await assert.rejects(async () => users.update(second.id, { email: one }, call), taken)
    await assert.rejects(async () => users.replace(second.id, { email: one }, call), taken)
    await assert.rejects(async () => users.replace(876_543, { email: one }, call), taken)
    assert.equal(await users.get(876_543, call), undefined)
    assert.equal((await users.update(first.id, { email: one.toUpperCase() }, call))?.email, one.toUpperCase())
  })
  test('get generated ids that skip the chosen ids', async () => {
    const users = await open()
    const { id } = await users.create({ email: mail('before') }, call)
    assert.equal((await users.replace(id + 1, { email: mail('chosen') }, call)).created, true)
    assert.equal((await users.replace(id + 3, { email: mail('chosen') }, call)).created, true)
    const created = await users.createMany([{ email: mail('a') }, { email: mail('b') }], call)
    assert.deepEqual(codes(created), ['written', 'written'])
    const highest = Number.MAX_SAFE_INTEGER
    assert.equal((await users.replace(highest, { email: mail('highest') }, call)).item.id, highest)
    assert.ok((await users.create({ email: mail('after') }, call)).id < highest)
    await users.delete(highest, call)
  })
  test('get their outcomes from createMany, in order', async () => {
    const users = await open()
    const [a, b] = [mail('a'), mail('b')]
    const outcomes = await users.createMany(
      [
        { email: a, name: 'A, "{}" \\ é\u{1f600}' },
        { email: 'ADA.ALLEN@example.com' },
        { email: b, role: 'admin' },
        { email: a.toUpperCase() },
      ],
      call,
    )
    assert.deepEqual(codes(outcomes), ['written', 409, 'written', 409])
    const [first, , third] = outcomes as User[]
    assert.deepEqual(await users.get(first?.id ?? 0, call), {
      id: first?.id,
      name: 'A, "{}" \\ é\u{1f600}',
      email: a,
      role: 'viewer',
    })
    assert.ok((first?.id ?? 0) < (third?.id ?? 0))
    assert.deepEqual(await users.createMany([], call), [])
  })
  test('get their outcomes from updateMany, in order, even for a repeated user and an email', async () => {
    const users = await open()
    const [a, b] = [mail('a'), mail('b')]
    const [one, two] = await users.createMany([{ email: a }, { email: b }], call) as [User, User]
    const roles = await users.updateMany(
      [
        { id: two.id, change: { role: 'admin' } },
        { id: 98_765, change: { role: 'admin' } },
        { id: one.id, change: { role: 'editor' } },
      ],
      call,
    )
    assert.deepEqual(roles, [{ ...two, role: 'admin' }, undefined, { ...one, role: 'editor' }])
    const mixed = await users.updateMany(
      [
        { id: one.id, change: { name: 'x' } },
        { id: two.id, change: { email: a } },
        { id: one.id, change: { name: 'y' } },
      ],
      call,
    )
    assert.deepEqual(codes(mixed), ['written', 409, 'written'])
    assert.deepEqual(await users.get(one.id, call), { ...one, role: 'editor', name: 'y' })
    assert.equal((await users.get(two.id, call))?.email, b)
    assert.deepEqual(await users.updateMany([], call), [])
  })
  test('are written by a transaction that resolves, even if it had rejected items', async () => {
    const users = await open()
    const [a, b] = [mail('a'), mail('b')]
    const { one, two } = await users.transaction(async (inside) => {
      const one = await inside.create({ email: a }, call)
      const refused = await Promise.allSettled([
        async () => inside.create({ email: a }, call), async () => inside.replace(3, { email: a }, call),
        async () => inside.createMany([{ email: b }], call), async () => inside.update(4, { email: a }, call),
      ].map((write) => write()))
      assert.deepEqual(refused.map(({ status }) => status), ['rejected', 'rejected', 'fulfilled', 'rejected'])
      assert.deepEqual(codes(await inside.createMany([{ email: a }, { email: b }], call)), [409, 409])
      assert.deepEqual(await inside.get(one.id, call), one)
      const { items, total } = await inside.list({ start: 0, limit: 100_000 }, call)
      assert.deepEqual([items.length, items.some(({ id }) => id === one.id)], [total, true])
      return { one, two: items.find(({ email }) => email === b) }
    }, call)
    assert.deepEqual(await users.get(one.id, call), one)
    assert.equal((await users.get(two?.id ?? 0, call))?.email, b)
  })
  test('are not changed by a transaction that rejects', async () => {
    const users = await open()
    const before = await everybody(users)
    const email = mail('gone')
    const error = new Error('stop')
    await assert.rejects(users.transaction(async (inside) => {
      await inside.createMany([{ email }], call)
      await inside.updateMany([{ id: 1, change: { role: 'viewer' } }], call)
      await inside.update(2, { email: mail('other') }, call)
      assert.equal(await inside.delete(5, call), true)
      assert.equal(await inside.get(5, call), undefined)
      await inside.replace(6, { email: mail('six') }, call)
      throw error
    }, call), (thrown) => thrown === error)
    assert.deepEqual(await everybody(users), before)
    assert.equal((await users.create({ email }, call)).email, email)
  })
  test('lose only the changes of a nested transaction that is rolled back', async () => {
    const users = await open()
    const [a, b] = [mail('a'), mail('b')]
    await users.transaction(async (inside) => {
      await inside.create({ email: a }, call)
      await assert.rejects(inside.transaction(async (deeper) => {
        await deeper.create({ email: b }, call)
        throw new Error('stop')
      }, call), /stop/)
    }, call)
    const emails = new Set((await everybody(users)).map(({ email }) => email))
    assert.deepEqual([emails.has(a), emails.has(b)], [true, false])
  })
  test('keep all writes of concurrent transactions, and one transaction gets an email that several want', async () => {
    const users = await open()
    const [email, other] = [mail('both'), mail('other')]
    const tries = await Promise.allSettled([
      users.transaction(async (inside) => inside.create({ email }, call), call), users.create({ email }, call),
      users.transaction(async (inside) => inside.create({ email }, call), call), users.create({ email: other }, call),
    ])
    assert.deepEqual(tries.map(({ status }) => status).sort(), ['fulfilled', 'fulfilled', 'rejected', 'rejected'])
    assert.equal((await everybody(users)).filter((user) => user.email === email || user.email === other).length, 2)
  })
  test('get their outcomes from upsertUsers', async () => {
    const users = await open()
    const [a, b, c] = [mail('a'), mail('b'), mail('c')]
    const old = await users.create({ email: a, name: 'Old' }, call)
    const id = old.id + 1000
    const outcomes = await upsertUsers(
      users,
      [
        { id: old.id, role: 'admin' },
        { id, email: b, name: 'New' },
        { email: c },
        { id, role: 'editor' },
        { id: id + 1 },
        { name: 'No email' },
        { id: id + 2, email: 'ada.allen@example.com' },
        { id: 1, email: a.toUpperCase() },
        { email: a },
      ],
      call,
    )
    assert.deepEqual(outcomes.map(({ status, error }) => error?.code ?? status),
      [200, 201, 201, 200, 'invalid_input', 'invalid_input', 'conflict', 'conflict', 'conflict'])
    assert.deepEqual([outcomes[0]?.id, outcomes[1]?.id, outcomes[3]?.id], [old.id, id, id])
    assert.equal((await users.get(old.id, call))?.role, 'admin')
    assert.equal((await users.get(id, call))?.role, 'editor')
  })
  test('are not written by a call whose signal was aborted before', async () => {
    const users = await open()
    const gone = { signal: AbortSignal.abort(), context: undefined }
    await assert.rejects(
      async () => users.transaction(async (inside) => inside.create({ email: mail('x') }, gone), gone),
      { name: 'AbortError' },
    )
  })
}
