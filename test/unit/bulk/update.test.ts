import assert from 'node:assert/strict'
import { describe, test } from 'node:test'
import { bulkUpdate, type BulkUpdateOptions } from '../../../src/bulk/update.js'
import { ask, codes, only, roleChange, statuses, Users, type RoleChange } from '../kit/bulk.js'

type Options = Omit<BulkUpdateOptions<RoleChange, { role: string }, number>, 'background'>

const handlerOf = (repository: Options['repository'], options: Partial<Options> = {}) =>
  bulkUpdate<RoleChange, { role: string }, number>({
    repository,
    schema: roleChange,
    id: ({ userId }) => userId,
    change: ({ role }) => ({ role }),
    onError: () => undefined,
    ...options,
  })
const patch = (handler: ReturnType<typeof handlerOf>, updates: unknown, rest: object = {}) =>
  ask(handler, { method: 'PATCH', body: { updates }, ...rest })
const rolesOf = (users: Users): string[] => [...users.users.values()].map(({ role }) => role)
const to = (role: string, ...ids: number[]): RoleChange[] => ids.map((userId) => ({ userId, role }))

describe('bulk update', () => {
  test('SPEC 2.3, 4.4: takes an object with updates of userId and role, and responds with 200 if all are valid', async () => {
    const users = new Users(3)
    const answer = await patch(handlerOf(users), to('editor', 1, 3))
    assert.deepEqual(
      [answer.status, answer.json],
      [
        200,
        {
          summary: { total: 2, succeeded: 2, failed: 0 },
          items: [
            { index: 0, status: 200, id: 1 },
            { index: 1, status: 200, id: 3 },
          ],
        },
      ],
    )
    assert.deepEqual(rolesOf(users), ['editor', 'viewer', 'editor'])
  })
  test('SPEC 4.4.1: is atomic with a transaction, and changes nothing if one update fails', async () => {
    const users = new Users(3)
    const answer = await patch(handlerOf(users), to('editor', 1, 9, 3))
    assert.deepEqual([answer.status, answer.json.code, statuses(answer), codes(answer)], [
      422, 'batch_failed', [424, 404, 424], ['not_applied', 'not_found', 'not_applied'],
    ])
    assert.deepEqual([rolesOf(users), users.calls.at(-1)], [['viewer', 'viewer', 'viewer'], 'rollback'])
  })
  test('SPEC 4.4.2: is partial without a transaction, and reports successes and failures', async () => {
    for (const users of [new Users(3), new Users(3)].map((its, at) => ({
      its,
      repository: at === 0 ? only(its, 'update') : only(its, 'updateMany'),
    }))) {
      const answer = await patch(handlerOf(users.repository), [
        ...to('editor', 1, 9),
        { userId: 2, role: 'king' },
        ...to('admin', 3),
      ])
      assert.deepEqual(
        [answer.status, statuses(answer), answer.json.summary],
        [207, [200, 404, 400, 200], { total: 4, succeeded: 2, failed: 2 }],
      )
      assert.deepEqual(answer.json.items[2]?.error?.details, [
        { pointer: '/updates/2/role', message: 'must be one of "admin", "editor", "viewer"' },
      ])
      assert.deepEqual(rolesOf(users.its), ['editor', 'viewer', 'admin'])
    }
  })
  test('is partial with atomic: false, and needs a transaction with atomic: true', async () => {
    const users = new Users(2)
    assert.equal((await patch(handlerOf(users, { atomic: false }), to('editor', 1, 9))).status, 207)
    assert.deepEqual(rolesOf(users), ['editor', 'viewer'])
    assert.throws(() => handlerOf(only(users, 'update'), { atomic: true }), /transaction/)
    assert.throws(() => handlerOf({}), /updateMany or update/)
  })
  test('has an unknown outcome for each record if the number of outcomes is wrong', async () => {
    for (const outcomes of [[], [{ id: 1 }], [{ id: 1 }, { id: 2 }, { id: 3 }]]) {
      const answer = await patch(handlerOf({ updateMany: () => outcomes }), to('editor', 1, 2))
      assert.deepEqual([answer.status, codes(answer)], [500, ['write_outcome_unknown', 'write_outcome_unknown']])
    }
  })
  test('rejects the later of two updates of one record in a batch', async () => {
    const users = new Users(2)
    const answer = await patch(handlerOf(users, { atomic: false }), [...to('editor', 1), ...to('admin', 1)])
    assert.deepEqual(
      [statuses(answer), codes(answer), rolesOf(users)],
      [
        [200, 409],
        [undefined, 'duplicate_item'],
        ['editor', 'viewer'],
      ],
    )
  })
  test('gives a 400 with a pointer to a body of another shape, and declines POST', async () => {
    const users = new Users(2)
    for (const [body, pointer] of [
      [[], '/updates'],
      [{}, '/updates'],
      [{ updates: {} }, '/updates'],
      [7, '/updates'],
    ] as const) {
      const answer = await ask(handlerOf(users), { method: 'PATCH', body })
      assert.deepEqual(
        [
          answer.status,
          answer.json.code,
          answer.json.details instanceof Array && (answer.json.details as { pointer: string }[])[0]?.pointer,
        ],
        [400, 'invalid_input', pointer],
      )
    }
    assert.equal((await patch(handlerOf(users), [])).json.code, 'empty_batch')
    await assert.rejects(ask(handlerOf(users), { method: 'POST', body: {} }), /passed it on/)
  })
  test('gets a 400 for a property beside the array, parsed as a whole or streamed, and writes nothing', async () => {
    for (const streamAboveBytes of [0, 1_000_000]) {
      const users = new Users(3)
      const before = rolesOf(users)
      for (const body of [
        '{"dryRun":true,"updates":[{"userId":1,"role":"x"}]}',
        '{"updates":[{"userId":1,"role":"x"}],"dryRun":{"a":[1]}}',
        '{"updates":[{"userId":1,"role":"x"}],"dryRun":tru',
      ]) {
        const answer = await ask(handlerOf(users, { streamAboveBytes }), { method: 'PATCH', body })
        assert.equal(answer.status, 400, body)
        if (body.endsWith('tru')) continue
        assert.equal(answer.json.code, 'invalid_input')
        assert.equal((answer.json.details as { pointer: string }[])[0]?.pointer, '/dryRun')
        assert.deepEqual(rolesOf(users), before)
      }
      const unsafe = await ask(handlerOf(users, { streamAboveBytes }), {
        method: 'PATCH',
        body: '{"updates":[{"userId":1,"role":"x"}],"__proto__":{}}',
      })
      assert.deepEqual([unsafe.status, unsafe.json.code], [400, 'unsafe_key'])
    }
  })
  test('may have its array in another property, and a streamed body', async () => {
    const users = new Users(100)
    const handler = handlerOf(users, { items: '/changes', streamAboveBytes: 50, batchSize: 7 })
    const changes = [...users.users.keys()].map((userId) => ({ userId, role: 'admin' }))
    const answer = await ask(handler, { method: 'PATCH', body: { changes } })
    assert.deepEqual(
      [answer.status, answer.json.summary.succeeded, new Set(rolesOf(users))],
      [200, 100, new Set(['admin'])],
    )
  })
})
