// Prefer: handling (RFC 7240 section 4.4): a client chooses partial success of a batch that is atomic by default.
import assert from 'node:assert/strict'
import { after, describe, test } from 'node:test'
import { memory } from '../../../adapters/memory/index.js'
import { bulkCreate, bulkUpdate } from '../../../src/bulk/index.js'
import type { BulkUpdateOptions } from '../../../src/bulk/update.js'
import type { Handler } from '../../../src/http/exchange.js'
import type { Call, Update } from '../../../src/repositories/repository.js'
import { createTasks } from '../../../src/tasks/tasks.js'
import { taskEndpoints } from '../../../src/tasks/http/endpoints.js'
import { ask, codes, only, roleChange, statuses, Users, type Asked, type RoleChange, type Told } from '../kit/bulk.js'

type Change = { readonly role: string }
type Options = Omit<BulkUpdateOptions<RoleChange, Change, number>, 'background' | 'id' | 'change'>

const closing: (() => Promise<unknown>)[] = []
after(async () => { for (const close of closing) await close() })

const shared = {
  schema: roleChange,
  id: ({ userId }: RoleChange) => userId,
  change: ({ role }: RoleChange) => ({ role }),
  onError: () => undefined,
}
const handlerOf = (options: Options): Handler => bulkUpdate<RoleChange, Change, number>({ ...shared, ...options })
const to = (role: string, ...ids: number[]): RoleChange[] => ids.map((userId) => ({ userId, role }))
const rolesOf = (users: Users): string[] => [...users.users.values()].map(({ role }) => role)
const patch = (
  handler: Handler,
  prefer: string | undefined,
  updates: unknown,
  headers: Asked['headers'] = {},
): Promise<Told> =>
  ask(handler, { method: 'PATCH', body: { updates }, headers: { ...(prefer !== undefined && { prefer }), ...headers } })
const applied = ({ headers }: Told): unknown => headers['preference-applied']

/** In the background: `ended` waits for the result. */
function background(options: Options) {
  const { engine, store, blobs } = memory()
  const update = bulkUpdate<RoleChange, Change, number>({
    ...shared,
    ...options,
    background: { name: 'update', blobs, backoff: { type: 'fixed', delayMs: 1 } },
  })
  const tasks = createTasks({ engine, store, definitions: [update.task], onError: () => undefined })
  closing.push(() => tasks.close(), () => blobs.close(), () => store.close())
  const endpoints = taskEndpoints(tasks, { statusPath: '/status/{id}', owner: 'anyone' })
  return {
    handler: update.handler<unknown>(endpoints),
    async ended({
      headers,
    }: Told): Promise<{ summary: object; items?: { index: number; status: number }[] } | undefined> {
      const told = await ask((request) => endpoints.status({ ...request, path: headers['location'] as string }), {
        method: 'GET',
        headers: { prefer: 'wait=20' },
      })
      return (told.json as unknown as { result?: { summary: object } }).result
    },
  }
}

describe('the preference handling of a bulk update', () => {
  test('SPEC 4.4.2: lenient applies the valid items of an atomic batch and reports the others', async () => {
    for (const repository of [(users: Users) => users, (users: Users) => only(users, 'update', 'transaction')]) {
      const users = new Users(3)
      const answer = await patch(handlerOf({ repository: repository(users) }), 'handling=lenient', [
        ...to('editor', 1, 9),
        { userId: 2, role: 'king' },
        ...to('admin', 3),
      ])
      assert.deepEqual(
        [answer.status, statuses(answer), answer.json.summary],
        [207, [200, 404, 400, 200], { total: 4, succeeded: 2, failed: 2 }],
      )
      assert.deepEqual([rolesOf(users), users.calls.includes('begin')], [['editor', 'viewer', 'admin'], false])
      assert.deepEqual([applied(answer), answer.headers['vary']], ['handling=lenient', 'Prefer'])
    }
  })
  test('SPEC 4.4.1: strict and an unknown value leave a batch atomic', async () => {
    for (const [prefer, expected] of [
      ['handling=strict', 'handling=strict'],
      ['handling=loose', undefined],
      ['lenient', undefined],
      [undefined, undefined],
    ] as const) {
      const users = new Users(2)
      const answer = await patch(handlerOf({ repository: users }), prefer, to('editor', 1, 9))
      assert.deepEqual(
        [answer.status, statuses(answer), rolesOf(users), applied(answer)],
        [422, [424, 404], ['viewer', 'viewer'], expected],
      )
      assert.match(String(answer.headers['vary']), /\bPrefer\b/)
    }
  })
  test('has the status codes of a batch whose items are written separately', async () => {
    const users = new Users(2)
    const lenient = (updates: unknown, options: Partial<Options> = {}) =>
      patch(handlerOf({ repository: users, ...options }), 'handling=lenient', updates)
    assert.equal((await lenient(to('editor', 1, 2))).status, 200)
    assert.equal((await lenient(to('editor', 1, 9), { mixedStatus: 200 })).status, 200)
    const none = await lenient(to('editor', 8, 9))
    assert.deepEqual(
      [none.status, none.json.code, codes(none), applied(none)],
      [422, 'batch_failed', ['not_found', 'not_found'], 'handling=lenient'],
    )
    const minimal = await patch(
      handlerOf({ repository: users }),
      'return=minimal, handling=lenient',
      to('editor', 1, 9),
    )
    assert.deepEqual([minimal.status, applied(minimal)], [207, 'return=minimal, handling=lenient'])
  })
  test('cannot weaken atomic: true, and the response does not say that it was applied', async () => {
    const users = new Users(2)
    const answer = await patch(handlerOf({ repository: users, atomic: true }), 'handling=lenient', to('editor', 1, 9))
    assert.deepEqual([answer.status, rolesOf(users), applied(answer)], [422, ['viewer', 'viewer'], undefined])
  })
  test('is acknowledged for lenient, but not for strict, if every batch is partial', async () => {
    const handler = handlerOf({ repository: new Users(2), atomic: false })
    const lenient = await patch(handler, 'handling=lenient', to('editor', 1, 9))
    const strict = await patch(handler, 'handling=strict', to('editor', 1, 9))
    assert.deepEqual(
      [lenient.status, applied(lenient), strict.status, applied(strict)],
      [207, 'handling=lenient', 207, undefined],
    )
  })
  test('applies to creation with atomic: if-possible', async () => {
    const users = new Users(1)
    const handler = bulkCreate({ repository: users, atomic: 'if-possible', onError: () => undefined })
    const body = [{ name: 'New', email: 'new@example.com' }, { name: 'Old', email: 'user-1@example.com' }]
    assert.equal((await ask(handler, { body })).status, 409)
    const answer = await ask(handler, { body, headers: { prefer: 'handling=lenient' } })
    assert.deepEqual(
      [answer.status, statuses(answer), applied(answer), users.users.size],
      [207, [201, 409], 'handling=lenient', 2],
    )
  })
  test('is part of the request that an Idempotency-Key identifies', async () => {
    const users = new Users(2)
    const { handler } = background({ repository: users })
    const key = { 'idempotency-key': 'k' }
    assert.equal((await patch(handler, undefined, to('editor', 1, 9), key)).status, 422)
    const other = await patch(handler, 'handling=lenient', to('editor', 1, 9), key)
    assert.deepEqual([other.json.code, rolesOf(users)], ['idempotency_key_reused', ['viewer', 'viewer']])
    const lenient = { 'idempotency-key': 'l' }
    const first = await patch(handler, 'handling=lenient', to('editor', 1, 9), lenient)
    const again = await patch(handler, 'handling=lenient, respond-async', to('editor', 1, 9), lenient)
    assert.deepEqual(
      [again.status, again.text, applied(again), again.headers['idempotent-replayed']],
      [207, first.text, 'handling=lenient', 'true'],
    )
  })
})

describe('the preference handling of a bulk update in the background', () => {
  test('SPEC 4.4.2: lenient gives partial success, and the 202 says so', async () => {
    for (const streamAboveBytes of [0, 262_144]) {
      const users = new Users(3)
      const { handler, ended } = background({ repository: users, streamAboveBytes })
      const accepted = await patch(handler, 'respond-async, handling=lenient', to('editor', 1, 9, 3))
      assert.deepEqual(
        [accepted.status, applied(accepted), accepted.headers['vary']],
        [202, 'respond-async, handling=lenient', 'Prefer'],
      )
      const result = await ended(accepted)
      assert.deepEqual(
        [result?.summary, result?.items?.map(({ status }) => status)],
        [{ total: 3, succeeded: 2, failed: 1 }, [200, 404, 200]],
      )
      assert.deepEqual(rolesOf(users), ['editor', 'viewer', 'editor'])
    }
  })
  test('applies to a body that is too large for a synchronous request', async () => {
    const users = new Users(3)
    const { handler, ended } = background({ repository: users, maxDirectBytes: 10 })
    const accepted = await patch(handler, 'handling=lenient', to('editor', 1, 9))
    assert.deepEqual([accepted.status, applied(accepted)], [202, 'handling=lenient'])
    assert.deepEqual((await ended(accepted))?.summary, { total: 2, succeeded: 1, failed: 1 })
  })
  test('leaves a batch atomic if the preference is missing', async () => {
    const users = new Users(3)
    const { handler, ended } = background({ repository: users })
    const accepted = await patch(handler, 'respond-async', to('editor', 1, 9))
    assert.deepEqual((await ended(accepted))?.summary, { total: 2, succeeded: 0, failed: 2 })
    assert.deepEqual([applied(accepted), rolesOf(users)], ['respond-async', ['viewer', 'viewer', 'viewer']])
  })
  test('writes each item once with a cursor, although an attempt failed after its write', async () => {
    const users = new Users(6)
    let stored: string | undefined
    const written: number[] = []
    let fails = true
    const repository = {
      updateMany(updates: readonly Update<number, Change>[], call: Call) {
        const outcomes = users.updateMany(updates, call)
        written.push(...updates.map(({ id }) => id))
        stored = call.cursor?.(outcomes)
        if (written.length < 4 || !fails) return outcomes
        fails = false
        throw new Error('The connection broke after the commit')
      },
      transaction: users.transaction.bind(users) as never,
    }
    const { handler, ended } = background({ repository, batchSize: 2, resume: () => stored })
    const result = await ended(await patch(handler, 'respond-async, handling=lenient', to('editor', 1, 2, 3, 9, 5, 6)))
    assert.deepEqual(written, [1, 2, 3, 9, 5, 6])
    assert.deepEqual(
      result?.items?.map(({ index, status }) => [index, status]),
      [
        [0, 200],
        [1, 200],
        [2, 200],
        [3, 404],
        [4, 200],
        [5, 200],
      ],
    )
  })
  test('is ignored with resume and single writes, which have no position', async () => {
    const users = new Users(2)
    const { handler, ended } = background({ repository: only(users, 'update', 'transaction'), resume: () => undefined })
    const accepted = await patch(handler, 'respond-async, handling=lenient', to('editor', 1, 9))
    assert.equal(applied(accepted), 'respond-async')
    assert.deepEqual((await ended(accepted))?.summary, { total: 2, succeeded: 0, failed: 2 })
  })
})
