import assert from 'node:assert/strict'
import { describe, test } from 'node:test'
import { ConflictException } from '@nestjs/common'
import { bulkCreate, type BulkCreateOptions } from '../../../src/bulk/create.js'
import { HttpError } from '../../../src/http/errors.js'
import type { Schema } from '../../../src/schema/schema.js'
import { fakeRequest } from '../kit/request.js'
import { ask, codes, draft, only, people, person, statuses, Users, type Draft, type User } from '../kit/bulk.js'

const told: unknown[] = []
const onError = (error: unknown): void => { told.push(error) }
const handlerOf = (
  repository: BulkCreateOptions<User, Draft>['repository'],
  options: Partial<Omit<BulkCreateOptions<User, Draft>, 'background'>> = {},
) => bulkCreate<User, Draft>({ repository, schema: draft, key: ({ email }) => email, onError, ...options })

describe('the report of a bulk create', () => {
  test('SPEC 2.2, 4.3: is a 201 with an id for each item if all are valid', async () => {
    const users = new Users()
    const answer = await ask(handlerOf(users), { body: people(3) })
    assert.equal(answer.status, 201)
    assert.deepEqual(answer.json, {
      summary: { total: 3, succeeded: 3, failed: 0 },
      items: [{ index: 0, status: 201, id: 1 }, { index: 1, status: 201, id: 2 }, { index: 2, status: 201, id: 3 }],
    })
    assert.deepEqual(users.emails, people(3).map(({ email }) => email))
    assert.deepEqual([answer.headers['content-type'], answer.headers['vary']], ['application/json', 'Prefer'])
  })
  test('SPEC 4.3.1, 4.3.2, 7.4: has the outcome of each item separately, with a code, a sentence and pointers', async () => {
    const users = new Users(1)
    const answer = await ask(handlerOf(users), {
      body: [person(0), { name: 'No email' }, 7, { name: 'Taken', email: 'user-1@example.com' }, person(0), person(1)],
    })
    assert.equal(answer.status, 207)
    assert.deepEqual(answer.json.summary, { total: 6, succeeded: 2, failed: 4 })
    assert.deepEqual(statuses(answer), [201, 400, 400, 409, 409, 201])
    assert.deepEqual(answer.json.items[1], {
      index: 1,
      status: 400,
      error: {
        code: 'invalid_input',
        message: 'The item is not valid.',
        details: [{ pointer: '/1/email', message: 'is required' }],
      },
    })
    assert.deepEqual(answer.json.items[3]?.error, {
      code: 'conflict',
      message: 'The email is taken.',
      details: [{ pointer: '/3/email', message: 'is taken' }],
    })
    assert.equal(answer.json.items[4]?.error?.code, 'duplicate_item')
    assert.match(answer.json.items[4].error.message ?? '', /^Item 0 of this batch/)
    assert.deepEqual(users.emails, ['user-1@example.com', person(0).email, person(1).email])
  })
  test('gives each id to its own item, even after items that failed', async () => {
    for (const bad of [[0], [1], [1, 2], [0, 2], [3]]) {
      const users = new Users()
      const { json } = await ask(handlerOf(users, { batchSize: 2 }), {
        body: people(6).map((its, at) => (bad.includes(at) ? {} : its)),
      })
      for (const { index, id, status } of json.items) {
        assert.equal(status, bad.includes(index) ? 400 : 201)
        assert.equal(users.users.get(id as number)?.email, bad.includes(index) ? undefined : person(index).email)
      }
    }
  })
  test('SPEC 2.1: has a 400 for an item without email, and is a 422 if there is no other item', async () => {
    const answer = await ask(handlerOf(new Users()), { body: [{ name: 'No email' }] })
    assert.deepEqual([answer.status, answer.json.code, statuses(answer)], [422, 'batch_failed', [400]])
    assert.equal(answer.json.error, 'None of the items could be applied.')
  })
  test('is a problem document with the same content for clients that accept it, if all is rejected', async () => {
    const { headers, json } = await ask(handlerOf(new Users()), {
      body: [{}],
      headers: { accept: 'application/problem+json' },
    })
    assert.equal(headers['content-type'], 'application/problem+json')
    assert.deepEqual(Object.keys(json), ['status', 'title', 'detail', 'error', 'code', 'summary', 'items'])
    assert.deepEqual(headers['vary'], 'Accept, Prefer')
  })
  test('has status 200 with mixedStatus: 200', async () => {
    assert.equal((await ask(handlerOf(new Users(), { mixedStatus: 200 }), { body: [person(0), {}] })).status, 200)
  })
  test('leaves out the valid items with ?only=failed, and any other value of only is rejected before a write', async () => {
    const users = new Users()
    const { status, json } = await ask(handlerOf(users), { query: 'only=failed', body: [person(0), {}, person(1)] })
    assert.deepEqual(
      [status, json.summary, json.items.map(({ index }) => index)],
      [207, { total: 3, succeeded: 2, failed: 1 }, [1]],
    )
    assert.deepEqual((await ask(handlerOf(users), { query: 'only=failed', body: [person(2)] })).json.items, [])
    for (const query of ['only=all', 'only=failed&only=failed', 'only=']) {
      const refused = await ask(handlerOf(users), { query, body: [person(9)] })
      assert.deepEqual([refused.status, refused.json.code], [400, 'invalid_query'])
    }
    assert.equal(users.users.size, 3)
  })
  test('is the summary alone with Prefer: return=minimal', async () => {
    const headers = { prefer: 'return=minimal' }
    const good = await ask(handlerOf(new Users()), { headers, body: [person(0), {}] })
    assert.deepEqual(
      [good.status, good.json, good.headers['preference-applied']],
      [207, { summary: { total: 2, succeeded: 1, failed: 1 } }, 'return=minimal'],
    )
    const bad = await ask(handlerOf(new Users()), { headers, body: [{}] })
    assert.deepEqual(
      [bad.status, Object.keys(bad.json), bad.headers['preference-applied']],
      [422, ['error', 'code', 'summary'], 'return=minimal'],
    )
  })
  test('has ids that may be text, are escaped, and can be left out', async () => {
    const long = 'x'.repeat(20)
    const ids = [
      '"a"',
      'é\n',
      undefined,
      'a',
      '\\',
      'a\u0001',
      7,
      'a\u007f',
      'b',
      long,
      `${long}"`,
      `${long}\\`,
      `${long}\n`,
      undefined,
      long,
    ]
    const repository = {
      create: ({ name }: Draft) => ({ id: ids[Number(name)] as unknown as number, name, email: '', role: '' }),
    }
    const { json } = await ask(handlerOf(repository), {
      body: ids.map((_, at) => ({ ...person(at), name: String(at) })),
    })
    assert.deepEqual(json.items.map(({ id }) => id), ids)
  })
  test('lists every item, and above maxReportBytes only the codes of errors', async () => {
    const body = Array.from({ length: 5000 }, () => ({}))
    const handler = handlerOf(new Users(), { streamAboveBytes: 100, maxReportBytes: 1000 })
    const { status, json } = await ask(handler, {
      body: JSON.stringify(body).replaceAll('{}', `{"pad":"${'x'.repeat(60)}"}`),
    })
    assert.equal(status, 422)
    assert.deepEqual(json.items.map(({ index }) => index), body.map((_, at) => at))
    assert.ok(json.items[0]?.error?.details)
    assert.deepEqual(json.items.at(-1), { index: 4999, status: 400, error: { code: 'invalid_input' } })
  })
})

describe('a repository that fails', () => {
  const explodes = (users: Users) => {
    users.fails = ({ name }) => { if (name === 'Person 516') throw new Error('secret: connection lost') }
    return users
  }
  test('in create makes the outcome of that item unknown, and only onError receives the error', async () => {
    told.length = 0
    const users = explodes(new Users())
    const answer = await ask(handlerOf(only(users, 'create')), { body: people(1000) })
    assert.equal(answer.status, 207)
    assert.deepEqual(answer.json.summary, { total: 1000, succeeded: 999, failed: 1 })
    assert.deepEqual(
      [answer.json.items[516]?.status, answer.json.items[516]?.error?.code],
      [500, 'write_outcome_unknown'],
    )
    assert.equal(answer.text.includes('secret'), false)
    assert.deepEqual(told.map((error) => (error as Error).message), ['secret: connection lost'])
    assert.deepEqual(users.emails, people(1000).filter((_, at) => at !== 516).map(({ email }) => email))
  })
  test('in createMany makes the outcomes of its own batch unknown, and no other outcomes', async () => {
    const users = explodes(new Users())
    const answer = await ask(handlerOf(only(users, 'createMany'), { batchSize: 100 }), { body: people(1000) })
    assert.deepEqual(answer.json.summary, { total: 1000, succeeded: 900, failed: 100 })
    answer.json.items.forEach(({ index, status, error }) => {
      assert.deepEqual(
        [status, error?.code],
        index >= 500 && index < 600 ? [500, 'write_outcome_unknown'] : [201, undefined],
      )
    })
    assert.deepEqual(users.calls, Array.from({ length: 10 }, () => 'createMany 100'))
  })
  test('in a transaction changes nothing: the item has the error, and the response is a 500', async () => {
    const users = explodes(new Users(2))
    const answer = await ask(handlerOf(only(users, 'create', 'transaction'), { atomic: true }), { body: people(1000) })
    assert.deepEqual(
      [answer.status, answer.json.code, answer.json.summary],
      [500, 'internal_error', { total: 1000, succeeded: 0, failed: 1000 }],
    )
    answer.json.items.forEach(({ index, status, error }) => {
      assert.deepEqual([status, error?.code], index === 516 ? [500, 'internal_error'] : [424, 'not_applied'])
    })
    assert.equal(users.users.size, 2)
  })
  test('in createMany in a transaction changes nothing, and the failed item is unknown', async () => {
    told.length = 0
    const users = explodes(new Users(2))
    const answer = await ask(handlerOf(users, { atomic: true }), { body: people(1000) })
    assert.deepEqual(
      [answer.status, answer.json.code, answer.json.summary],
      [500, 'internal_error', { total: 1000, succeeded: 0, failed: 1000 }],
    )
    assert.ok(statuses(answer).every((status) => status === 424))
    assert.deepEqual([users.users.size, told.length], [2, 1])
  })
  test('in the commit of a transaction makes the outcome unknown, and the response says so', async () => {
    const users = new Users()
    users.commit = () => { throw new Error('connection lost') }
    const answer = await ask(handlerOf(users, { atomic: true }), { body: people(3) })
    assert.deepEqual(
      [answer.status, answer.json.code, codes(answer)],
      [500, 'write_outcome_unknown', Array.from({ length: 3 }, () => 'write_outcome_unknown')],
    )
  })
  test('is reported for a wrong number of outcomes, and for a missing record', async () => {
    told.length = 0
    const short = await ask(handlerOf({ createMany: () => [] }), { body: people(2) })
    const none = await ask(handlerOf({ create: () => undefined as unknown as User }), { body: people(2) })
    for (const answer of [short, none])
      assert.deepEqual([answer.status, answer.json.code, statuses(answer)], [500, 'write_outcome_unknown', [500, 500]])
    assert.deepEqual(told.map((error) => (error as Error).name), ['TypeError', 'TypeError', 'TypeError'])
    const many = await ask(handlerOf({ createMany: () => [1, 2, 3].map((id) => ({ ...person(id), id, role: '' })) }), {
      body: people(2),
    })
    assert.deepEqual([many.status, codes(many)], [500, ['write_outcome_unknown', 'write_outcome_unknown']])
  })
  test('may reject with its own status, code and message', async () => {
    const repository = { create: () => { throw new HttpError(402, 'no_credit', { message: 'You have no credit.' }) } }
    const { json } = await ask(handlerOf(repository), { body: [person(0)] })
    assert.deepEqual(json.items, [
      { index: 0, status: 402, error: { code: 'no_credit', message: 'You have no credit.' } },
    ])
  })
  test('can throw an exception of NestJS, which keeps its status and message', async () => {
    told.length = 0
    const create = (): never => { throw new ConflictException('The email is taken.') }
    for (const transaction of [
      undefined,
      (work: (inside: { create: () => never }) => Promise<unknown>) => work({ create }),
    ]) {
      const { json } = await ask(
        handlerOf(
          { create, ...(transaction && { transaction: transaction as never }) },
          { atomic: transaction !== undefined },
        ),
        { body: [person(0)] },
      )
      assert.deepEqual(json.items, [
        { index: 0, status: 409, error: { code: 'conflict', message: 'The email is taken.' } },
      ])
    }
    assert.deepEqual(told, [])
  })
  test('reports ten errors of one request to onError, which may throw', async () => {
    let heard = 0
    const repository = { create: () => { throw new Error('down') } }
    await ask(
      handlerOf(repository, {
        onError: async () => {
          heard++
          throw new Error('onError')
        },
      }),
      { body: people(50) },
    )
    assert.equal(heard, 10)
  })
})

describe('an atomic bulk create', () => {
  test('SPEC 4.4.1: writes nothing if one item is bad, and reports each item separately', async () => {
    const users = new Users()
    const answer = await ask(handlerOf(users, { atomic: true }), { body: [person(0), {}, person(1), 3] })
    assert.deepEqual([answer.status, answer.json.code, statuses(answer)], [422, 'batch_failed', [424, 400, 424, 400]])
    assert.deepEqual([users.users.size, users.calls], [0, ['begin', 'createMany 2', 'rollback']])
  })
  test('begins no transaction for a batch without a valid item', async () => {
    const users = new Users()
    const answer = await ask(handlerOf(users, { atomic: true }), { body: [{}, 3] })
    assert.deepEqual([answer.status, statuses(answer), users.calls], [422, [400, 400], []])
  })
  test('gets a 409 for a conflict, even between its own items, and is rolled back', async () => {
    const users = new Users(1)
    const taken = await ask(handlerOf(users, { atomic: true }), {
      body: [person(0), { name: 'x', email: 'user-1@example.com' }, person(1)],
    })
    assert.deepEqual([taken.status, taken.json.code, statuses(taken)], [409, 'conflict', [424, 409, 424]])
    const twice = await ask(handlerOf(users, { atomic: 'if-possible' }), { body: [person(0), person(1), person(0)] })
    assert.deepEqual([twice.status, twice.json.code, statuses(twice)], [409, 'conflict', [424, 424, 409]])
    assert.deepEqual(users.emails, ['user-1@example.com'])
  })
  test('continues with single items after a rejected item, so that all rejected items are named', async () => {
    const users = new Users(1)
    const answer = await ask(handlerOf(only(users, 'create', 'transaction'), { atomic: true }), {
      body: [person(0), { name: 'x', email: 'user-1@example.com' }, person(1), {}, person(0)],
    })
    assert.deepEqual(
      [answer.status, statuses(answer), users.calls],
      [409, [424, 409, 424, 400, 409], ['begin', 'create', 'create', 'create', 'rollback']],
    )
  })
  test('ends at an error that is not a rejection, and the other items are validated but not written', async () => {
    for (const streamAboveBytes of [0, 1_000_000]) {
      const users = new Users()
      users.fails = ({ name }) => { if (name === 'Person 1') throw new Error('away') }
      const answer = await ask(handlerOf(only(users, 'create', 'transaction'), { atomic: true, streamAboveBytes }), {
        body: [...people(4), {}],
      })
      assert.deepEqual(
        [answer.status, statuses(answer), users.calls],
        [500, [424, 500, 424, 424, 400], ['begin', 'create', 'create', 'rollback']],
      )
    }
  })
  test('reports the known outcomes if its repository cannot continue after a rejected record', async () => {
    told.length = 0
    const users = new Users(1)
    users.fails = ({ name }) => { if (name === 'Person 1') throw new Error('current transaction is aborted') }
    const answer = await ask(handlerOf(users, { atomic: true, batchSize: 1 }), {
      body: [{ name: 'x', email: 'user-1@example.com' }, person(1), {}],
    })
    assert.deepEqual([answer.status, answer.json.code, statuses(answer)], [409, 'conflict', [409, 424, 400]])
    assert.equal((told[0] as Error).message, 'current transaction is aborted')
  })
  test('gets a 201 in one transaction if all items are valid', async () => {
    const users = new Users()
    const answer = await ask(handlerOf(users, { atomic: true, batchSize: 2 }), { body: people(3) })
    assert.deepEqual([answer.status, users.calls], [201, ['begin', 'createMany 2', 'createMany 1', 'commit']])
  })
  test('writes each item once if its transaction begins its work again', async () => {
    const users = new Users()
    const twice = {
      createMany: users.createMany.bind(users),
      transaction: async <R>(work: (inside: never) => Promise<R>): Promise<R> => {
        await users
          .transaction(async (inside) => {
            await work(inside as never)
            throw new Error('serialization failure')
          })
          .catch(() => undefined)
        return users.transaction((inside) => work(inside as never))
      },
    }
    const answer = await ask(handlerOf(twice, { atomic: true }), { body: people(3) })
    assert.deepEqual([answer.status, answer.json.summary.total, users.users.size], [201, 3, 3])
  })
  test('reads a large body again if its transaction begins its work again', async () => {
    const users = new Users()
    const twice = {
      createMany: users.createMany.bind(users),
      transaction: async <R>(work: (inside: never) => Promise<R>): Promise<R> => {
        await users
          .transaction(async (inside) => {
            await work(inside as never)
            throw new Error('serialization failure')
          })
          .catch(() => undefined)
        return users.transaction((inside) => work(inside as never))
      },
    }
    const answer = await ask(handlerOf(twice, { atomic: true, streamAboveBytes: 1000 }), { body: people(3000) })
    assert.deepEqual(
      [answer.status, answer.json.summary, users.users.size],
      [201, { total: 3000, succeeded: 3000, failed: 0 }, 3000],
    )
  })
  test("with 'if-possible' but without a transaction is partial", async () => {
    const users = new Users()
    assert.equal(
      (await ask(handlerOf(only(users, 'createMany'), { atomic: 'if-possible' }), { body: [person(0), {}] })).status,
      207,
    )
    assert.equal(users.users.size, 1)
  })
})

test('a synchronous schema takes no more microtasks for a thousand items than for ten', async () => {
  const turns = async (items: number): Promise<number> => {
    const handler = handlerOf(new Users())
    let count = 0
    let over = false
    const tick = (): void => {
      count++
      if (!over) queueMicrotask(tick)
    }
    const answer = ask(handler, { body: people(items) }).then(({ status }) => { over = true; return status })
    queueMicrotask(tick)
    assert.equal(await answer, 201)
    return count
  }
  const few = await turns(10)
  assert.equal(await turns(500), few)
  assert.ok(few < 60, `${few} turns`)
})

describe('a schema that responds late', () => {
  test('validates a few items at a time, and keeps the order of the items', async () => {
    let now = 0
    let most = 0
    const late: Schema<Draft> = { '~standard': { version: 1, vendor: 'test', validate: async (value) => {
      most = Math.max(most, ++now)
      await new Promise((resolve) => setImmediate(resolve))
      now--
      return (value as Draft).email === undefined
        ? { issues: [{ message: 'is required', path: ['email'] }] }
        : { value: value as Draft }
    } } }
    const answer = await ask(handlerOf(new Users(), { schema: late, concurrency: 4 }), {
      body: people(20).map((its, at) => (at % 3 === 1 ? { name: 'x' } : its)),
    })
    assert.deepEqual(statuses(answer), people(20).map((_, at) => (at % 3 === 1 ? 400 : 201)))
    assert.equal(most, 4)
  })
  test('fails an item by what it throws or rejects with, and the item is not written', async () => {
    told.length = 0
    for (const validate of [() => { throw new Error('secret') }, () => Promise.reject(new Error('secret'))]) {
      const users = new Users()
      const answer = await ask(
        handlerOf(users, { schema: { '~standard': { version: 1, vendor: 'test', validate } } }),
        { body: people(2) },
      )
      assert.deepEqual(
        [answer.status, answer.json.code, codes(answer), users.users.size],
        [500, 'internal_error', ['internal_error', 'internal_error'], 0],
      )
      assert.equal(answer.text.includes('secret'), false)
    }
    assert.equal(told.length, 4)
  })
})

describe('the concurrency of a bulk create', () => {
  test('limits concurrent writes, and keeps the order of the report', async () => {
    let now = 0
    let most = 0
    const users = new Users()
    const create = async (its: Draft): Promise<User> => {
      most = Math.max(most, ++now)
      await new Promise((resolve) => setTimeout(resolve, Math.random() * 3))
      now--
      return users.put(its)
    }
    const { json } = await ask(handlerOf({ create }, { concurrency: 3 }), { body: people(30) })
    assert.equal(most, 3)
    json.items.forEach(({ id }, at) => { assert.equal(users.users.get(id as number)?.email, person(at).email) })
  })
  test('writes no further item of an aborted request', async () => {
    const controller = new AbortController()
    const users = new Users()
    users.fails = ({ name }) => { if (name === 'Person 3') controller.abort() }
    await ask(handlerOf(only(users, 'create'), { concurrency: 1 }), { body: people(10), signal: controller.signal })
    assert.equal(users.users.size, 4)
  })
  test('writes no further slice of an aborted request', async () => {
    const controller = new AbortController()
    const users = new Users()
    users.fails = ({ name }) => { if (name === 'Person 3') controller.abort() }
    await ask(handlerOf(only(users, 'createMany'), { batchSize: 2 }), { body: people(10), signal: controller.signal })
    assert.deepEqual(users.calls, ['createMany 2', 'createMany 2'])
  })
  test('starts no request whose client disconnected before the first write, with and without a transaction', async () => {
    for (const options of [{}, { atomic: true }, { streamAboveBytes: 10 }]) {
      const users = new Users()
      const { status, text } = await ask(handlerOf(users, options), { body: people(3), signal: AbortSignal.abort() })
      assert.deepEqual([status, text, users.users.size], [503, '', 0])
    }
  })
  test('creates a signal only for a repository that reads it, if the binding can detect a disconnect without it', async () => {
    let made = 0
    const asks = async (handler: ReturnType<typeof handlerOf>, gone: boolean) => {
      const request = fakeRequest({
        body: JSON.stringify(people(1000)),
        headers: { 'content-type': 'application/json', 'content-length': '50000' },
      })
      const { signal } = gone ? { signal: AbortSignal.abort() } : new AbortController()
      return handler(
        Object.defineProperties(
          { ...request },
          {
            gone: { value: gone },
            signal: {
              get: () => {
                made++
                return signal
              },
            },
          },
        ),
      )
    }
    assert.equal((await asks(handlerOf(new Users()), false))?.status, 201)
    assert.equal((await asks(handlerOf(only(new Users(), 'create')), false))?.status, 201)
    assert.equal(made, 0)
    const users = new Users()
    assert.deepEqual([(await asks(handlerOf(users), true))?.status, users.users.size], [503, 0])
    const seen = new Set<AbortSignal>()
    users.fails = (_, { signal }) => { seen.add(signal) }
    await asks(handlerOf(users), false)
    assert.equal(seen.size, 1)
  })
})

test('invalid options are rejected at construction', () => {
  const users = new Users()
  assert.throws(() => handlerOf(only(users, 'create'), { atomic: true }), /atomic needs a repository with transaction/)
  assert.throws(() => handlerOf({}), /needs createMany or create/)
  for (const options of [
    { batchSize: 0 },
    { concurrency: 1.5 },
    { maxItems: NaN },
    { maxBytes: 0 },
    { streamAboveBytes: -1 },
    { maxItemBytes: 1e12 },
    { atomic: 'yes' },
    { mixedStatus: 201 },
    { schema: { type: 'object' } },
    { onError: 1 },
  ])
    assert.throws(() => handlerOf(users, options as never), TypeError, JSON.stringify(options))
})
