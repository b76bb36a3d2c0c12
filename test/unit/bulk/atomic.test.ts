import assert from 'node:assert/strict'
import { describe, test } from 'node:test'
import { bulkCreate } from '../../../src/bulk/create.js'
import type { BodySource } from '../../../src/http/exchange.js'
import { fakeRequest } from '../kit/request.js'
import { ask, codes, draft, people, person, statuses, Users, type Draft, type User } from '../kit/bulk.js'

/** All or none, over a repository whose transaction is this. */
function atomic(
  users: Users,
  transaction: (work: (inside: Users) => Promise<unknown>) => Promise<unknown>,
  heard: unknown[] = [],
) {
  const repository = { createMany: users.createMany.bind(users), transaction: transaction as Users['transaction'] }
  return bulkCreate<User, Draft>({
    repository,
    schema: draft,
    key: ({ email }) => email,
    atomic: true,
    onError: (error) => {
      heard.push((error as Error).message)
    },
  })
}

describe('a transaction', () => {
  test('fails as an error of the application if it does not call its work or hides its failure, and its items do not count as written', async () => {
    const users = new Users()
    users.fails = () => {
      throw new Error('the database is away')
    }
    for (const transaction of [
      async () => undefined,
      async (work: (inside: Users) => Promise<unknown>) => {
        await work(users).catch(() => undefined)
      },
    ]) {
      const heard: unknown[] = []
      const answer = await ask(atomic(users, transaction, heard), { body: people(2) })
      assert.equal(answer.status, 500)
      assert.equal(users.users.size, 0)
    }
  })

  test('has certainly written nothing if it begins its work again and then fails', async () => {
    const users = new Users()
    let fails = false
    users.fails = () => { if (fails) throw new Error('away') }
    const answer = await ask(atomic(users, async (work) => {
      await work(users)
      users.users.clear()
      fails = true
      await work(users)
    }), { body: people(2) })
    assert.equal(answer.status, 500)
    assert.ok(!codes(answer).includes('outcome_unknown'), String(codes(answer)))
  })

  test('does not write duplicates of its batch', async () => {
    const users = new Users()
    let begun = 0
    const answer = await ask(atomic(users, (work) => {
      begun++
      return users.transaction(work)
    }), { body: [person(0), person(1), person(0)] })
    assert.deepEqual(
      [answer.status, statuses(answer), codes(answer)],
      [409, [424, 424, 409], ['not_applied', 'not_applied', 'duplicate_item']],
    )
    assert.deepEqual([begun, users.users.size], [1, 0])
  })

  test('is rolled back if the client disconnects after the last write', async () => {
    const users = new Users()
    const gone = new AbortController()
    const reasons: unknown[] = []
    users.fails = ({ name }) => { if (name === 'Person 1') gone.abort(new Error('gone')) }
    await ask(atomic(users, async (work) => {
      try { await work(users) } catch (error) {
        reasons.push((error as Error).message)
        throw error
      }
    }), { body: people(2), signal: gone.signal }).catch(() => undefined)
    assert.deepEqual(reasons, ['gone'])
  })

  test('closes the body if it fails', async () => {
    const users = new Users()
    let closed = 0
    const pieces = JSON.stringify(people(20_000)).match(/.{1,60000}/g) ?? []
    const body: BodySource = {
      parsed: undefined, bytes: () => Promise.reject(new Error('too large')),
      stream: async function* () { try { for (const piece of pieces) yield Buffer.from(piece) } finally { closed++ } },
    }
    const handler = bulkCreate<User, Draft>({
      repository: {
        createMany: users.createMany.bind(users),
        transaction: () => Promise.reject(new Error('no connection')),
      },
      schema: draft,
      atomic: true,
      streamAboveBytes: 1000,
      onError: () => undefined,
    })
    const request = { ...fakeRequest({ headers: { 'content-type': 'application/json' } }), body }
    await Promise.resolve(handler(request)).catch(() => undefined)
    assert.equal(closed, 1)
  })
})
