import assert from 'node:assert/strict'
import { describe, test } from 'node:test'
import { setImmediate } from 'node:timers/promises'
import { bulkCreate } from '../../../src/bulk/create.js'
import { ask, codes, draft, people, statuses, Users, type Draft, type User } from '../kit/bulk.js'

type Create = (drafts: readonly Draft[], users: Users) => readonly User[] | Promise<readonly User[]>

const put: Create = (drafts, users) => drafts.map((each) => users.put(each))
const putLate: Create = async (drafts, users) => {
  await setImmediate()
  return put(drafts, users)
}
/** The client goes while a slice is written. */
const leaving = (client: AbortController, way: Create): Create => (drafts, users) => {
  client.abort()
  return way(drafts, users)
}

/** Writes its slices in these ways, one after the other, the last of them for all that follow. */
function repositoryOf(users: Users, ...ways: Create[]) {
  return {
    createMany(drafts: readonly Draft[]) {
      const way = ways[Math.min(users.calls.length, ways.length - 1)] as Create
      users.calls.push(String(drafts.length))
      return way(drafts, users)
    },
  }
}

const handlerOf = (users: Users, ...ways: Create[]) =>
  bulkCreate<User, Draft>({
    repository: repositoryOf(users, ...ways),
    schema: draft,
    batchSize: 2,
    onError: () => undefined,
  })

describe('the slices of a batch', () => {
  for (const [name, ways] of Object.entries({
    'at once': [put],
    'late': [putLate],
    'at once and late by turns': [put, putLate, put],
  })) {
    test(`are written ${name}, each once, in their order`, async () => {
      const users = new Users()
      const answer = await ask(handlerOf(users, ...ways), { body: people(5) })
      assert.deepEqual(users.calls, ['2', '2', '1'])
      assert.deepEqual(
        users.emails,
        people(5).map(({ email }) => email),
      )
      assert.deepEqual(
        answer.json.items.map(({ id }) => id),
        [1, 2, 3, 4, 5],
      )
    })
  }

  test('are written even if other slices fail, synchronously or not', async () => {
    const fail: Create = () => { throw new Error('gone') }
    const failLate: Create = async () => { throw new Error('gone') }
    for (const ways of [
      [put, fail, put],
      [put, failLate, put],
      [putLate, fail, putLate],
      [putLate, failLate, putLate],
    ]) {
      const users = new Users()
      const answer = await ask(handlerOf(users, ...ways), { body: people(5) })
      assert.deepEqual(statuses(answer), [201, 201, 500, 500, 201])
      assert.deepEqual(codes(answer).slice(2, 4), ['write_outcome_unknown', 'write_outcome_unknown'])
      assert.deepEqual(users.calls, ['2', '2', '1'])
    }
  })

  test('are not started after the client has disconnected', async () => {
    for (const way of [put, putLate]) {
      const controller = new AbortController()
      const users = new Users()
      const answer = await ask(handlerOf(users, leaving(controller, way)), {
        body: people(5),
        signal: controller.signal,
      })
      assert.deepEqual([answer.status, answer.text, users.calls], [503, '', ['2']])
    }
  })

  test('are all written if the client disconnects during the last one', async () => {
    const controller = new AbortController()
    const users = new Users()
    const answer = await ask(handlerOf(users, leaving(controller, putLate)), {
      body: people(2),
      signal: controller.signal,
    })
    assert.deepEqual([answer.status, answer.json.summary.succeeded], [201, 2])
  })
})

test('an empty array in a streamed body is rejected, even in a transaction', async () => {
  const users = new Users()
  const handler = bulkCreate<User, Draft>({ repository: users, schema: draft, atomic: true, streamAboveBytes: 10 })
  const { status, json } = await ask(handler, { body: `[${' '.repeat(50)}]` })
  assert.deepEqual([status, json.code, users.calls], [400, 'empty_batch', []])
})
