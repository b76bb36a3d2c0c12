// Issue 15, C14: to whom the tasks of endpoints belong.
import assert from 'node:assert/strict'
import { describe, test, type TestContext } from 'node:test'
import { inspect } from 'node:util'
import { memory } from '../../../../adapters/memory/index.js'
import { compose, type BodySource, type Handler } from '../../../../src/http/exchange.js'
import { isHttpError } from '../../../../src/http/errors.js'
import { authenticate } from '../../../../src/policies/authenticate.js'
import { bearer, tokens } from '../../../../src/policies/schemes.js'
import { router } from '../../../../src/resources/router.js'
import { createTasks, type Tasks } from '../../../../src/tasks/tasks.js'
import { defineTask } from '../../../../src/tasks/definition/define.js'
import { taskEndpoints } from '../../../../src/tasks/http/endpoints.js'
import type { OwnerOption } from '../../../../src/http/requester.js'
import { ask, request, type Ask } from '../../kit/request.js'

const work = defineTask({ name: 'work', run: () => ({ message: 'done' }) })
const few = defineTask({ name: 'few', maxPerOwner: 1, run: () => new Promise(() => undefined) })

function created(t: TestContext): Tasks {
  const tasks = createTasks({ ...memory(), definitions: [work, few] })
  t.after(() => tasks.close({ drainMs: 0 }))
  return tasks
}

/** The endpoints behind bearer tokens that are the names of their subjects. */
function site(
  t: TestContext,
  owner: OwnerOption,
  subjects = { ann: 'ann', bob: 'bob' } as Readonly<Record<string, string>>,
): Handler {
  const { submit, status } = taskEndpoints(created(t), {
    statusPath: '/tasks/{id}',
    owner,
    anonymous: owner === byName,
  })
  const known = Object.fromEntries(Object.entries(subjects).map(([token, subject]) => [token, { subject }]))
  const who = authenticate({ optional: true, schemes: [bearer({ verify: tokens(known) })] })
  return compose<unknown>(
    who,
    router({ 'POST /work': submit(work), 'POST /few': submit(few), 'GET|HEAD|DELETE /tasks/{id}': status }),
  )
}

const as = (name: string | undefined): Record<string, string> =>
  name === undefined ? {} : { authorization: `Bearer ${name}` }
const body: BodySource = {
  parsed: { value: {} },
  bytes: async () => Buffer.from('{}'),
  stream: async function* () {
    yield Buffer.from('{}')
  },
}

function post(api: Handler, name: string | undefined, more: Ask = {}, headers: Record<string, string> = {}) {
  return ask(api, {
    method: 'POST',
    path: '/work',
    body,
    headers: { ...as(name), 'content-type': 'application/json', 'prefer': 'respond-async', ...headers },
    ...more,
  })
}

async function submitted(
  api: Handler,
  name: string | undefined,
  key = 'k',
): Promise<{ location: string; replayed: boolean }> {
  const { status, headers } = await post(api, name, {}, { 'idempotency-key': key })
  assert.equal(status, 202)
  return { location: String(headers['location']), replayed: headers['idempotent-replayed'] !== undefined }
}

async function statusOf(api: Handler, name: string | undefined, path: string, method = 'GET'): Promise<number> {
  return (await ask(api, { method, path, headers: as(name) })).status
}

const byName: OwnerOption = ({ headers }) => (headers['authorization'] as string | undefined)?.slice('Bearer '.length)

test('a request without an owner gets a 401 from each handler, as their descriptions say', async (t) => {
  const noOwner = { statusPath: '/tasks/{id}', owner: () => undefined }
  const { submit, status, retry, callback, files, list } = taskEndpoints(created(t), noOwner)
  const id = 'a'.repeat(22)
  const asked = [
    [submit(work), 'POST', '/work'],
    [status, 'GET', `/tasks/${id}`],
    [status, 'HEAD', `/tasks/${id}`],
    [status, 'DELETE', `/tasks/${id}`],
    [retry, 'POST', `/tasks/${id}/retry`],
    [callback, 'POST', `/tasks/${id}/callback`],
    [files, 'GET', `/tasks/${id}/files/a.csv`],
    [list, 'GET', '/tasks'],
  ] as const
  for (const [handler, method, path] of asked) {
    const answer = await ask(handler, { method, path, body, headers: { 'content-type': 'application/json' } })
    assert.equal(answer.status, 401, `${method} ${path}`)
    for (const { openapi } of handler.operations ?? []) assert.ok('401' in (openapi['responses'] as object), path)
  }
  const open = taskEndpoints(created(t), { ...noOwner, anonymous: true })
  for (const handler of [open.submit(work), open.status, open.retry, open.callback, open.files]) {
    for (const { openapi } of handler.operations ?? []) assert.ok(!('401' in (openapi['responses'] as object)))
  }
})

test('owner has to be chosen, and the error explains the three choices', (t) => {
  const tasks = created(t)
  for (const options of [{}, { owner: undefined }, { owner: 'nobody' }, { owner: '' }, { owner: null }, { owner: 5 }]) {
    assert.throws(() => taskEndpoints(tasks, { statusPath: '/tasks/{id}', ...options } as never), (error: unknown) => {
      assert.ok(error instanceof TypeError)
      for (const choice of ['owner: ({ context }) => context.user?.id', "owner: 'principal'", "owner: 'anyone'"])
        assert.ok(error.message.includes(choice), error.message)
      return true
    })
  }
  // @ts-expect-error the owner is missing
  assert.throws(() => taskEndpoints(tasks, { statusPath: '/tasks/{id}' }), TypeError)
  // @ts-expect-error a number is no owner: 1 and '1' would differ
  taskEndpoints<{ user: { id: number } }>(tasks, { statusPath: '/tasks/{id}', owner: ({ context }) => context.user.id })
})

for (const [name, owner] of [['principal', 'principal'], ['a function', byName]] as const) {
  describe(`owner: ${name}`, () => {
    test('shows a task only to its owner', async (t) => {
      const api = site(t, owner)
      const { location } = await submitted(api, 'ann')
      assert.equal(await statusOf(api, 'ann', location), 200)
      for (const method of ['GET', 'DELETE']) assert.equal(await statusOf(api, 'bob', location, method), 404, method)
      const nobody = name === 'principal' ? 401 : 404
      for (const method of ['GET', 'DELETE'])
        assert.equal(await statusOf(api, undefined, location, method), nobody, method)
    })

    test('separates the Idempotency-Keys of two owners', async (t) => {
      const api = site(t, owner)
      const first = await submitted(api, 'ann')
      assert.deepEqual(await submitted(api, 'ann'), { ...first, replayed: true })
      const other = await submitted(api, 'bob')
      assert.notEqual(other.location, first.location)
      assert.equal(other.replayed, false)
    })
  })
}

test('owner: \'principal\' responds with a 401 and a challenge to a request without a principal, before the body is read', async (t) => {
  const api = site(t, 'principal')
  const unread: BodySource = { parsed: undefined, bytes: () => assert.fail('read'), stream: () => assert.fail('read') }
  for (const headers of [
    { prefer: 'respond-async' },
    { 'prefer': 'respond-async', 'idempotency-key': 'k' },
    { prefer: 'return=minimal' },
  ]) {
    const answer = await post(api, undefined, { body: unread }, headers)
    assert.equal(answer.status, 401)
    assert.equal(answer.headers['www-authenticate'], 'Bearer realm="longhaul"')
    assert.equal(answer.json['code'], 'unauthorized')
  }
})

test('owner as a function that returns undefined responds with 401, before the body is read', async (t) => {
  const { submit, status } = taskEndpoints(created(t), { statusPath: '/tasks/{id}', owner: byName })
  const api = router({ 'POST /work': submit(work), 'GET|HEAD|DELETE /tasks/{id}': status })
  const unread: BodySource = { parsed: undefined, bytes: () => assert.fail('read'), stream: () => assert.fail('read') }
  assert.equal((await post(api, undefined, { body: unread })).status, 401)
  assert.equal(await statusOf(api, undefined, '/tasks/x'), 401)
  assert.equal((await post(api, 'ann')).status, 202)
})

test('owner with anonymous: true may return undefined for the tasks without an owner', async (t) => {
  const api = site(t, byName)
  const { location } = await submitted(api, undefined)
  assert.equal(await statusOf(api, undefined, location), 200)
  assert.equal(await statusOf(api, 'ann', location), 404)
})

test('owner: \'anyone\' lets everybody who knows the id see the task', async (t) => {
  const api = site(t, 'anyone')
  const { location } = await submitted(api, 'ann')
  for (const name of ['ann', 'bob', undefined]) assert.equal(await statusOf(api, name, location), 200, String(name))
})

test('owner: \'anyone\' shows no task that has an owner', async (t) => {
  const tasks = createTasks({ ...memory(), definitions: [work] })
  t.after(() => tasks.close({ drainMs: 0 }))
  const { status } = taskEndpoints(tasks, { statusPath: '/tasks/{id}', owner: 'anyone' })
  const { taskId: id } = await tasks.submit(work, 1, { owner: 'ann' })
  assert.equal(await statusOf(router({ 'GET /tasks/{id}': status }), undefined, `/tasks/${id}`), 404)
})

describe('an owner function that returns no id fails loudly, and merges no clients', () => {
  for (const wrong of ['', 0, 7, null, false, Promise.resolve('ann'), Symbol('ann')]) {
    test(`${typeof wrong} ${inspect(wrong)}`, async (t) => {
      const { submit, status } = taskEndpoints(created(t), { statusPath: '/tasks/{id}', owner: () => wrong as never })
      for (const handler of [submit(work), status]) {
        const method = handler === status ? 'GET' : 'POST'
        const headers = { 'content-type': 'application/json' }
        const call = async () => handler(request({ method, path: '/tasks/x', headers, body }))
        await assert.rejects(call(), (error: unknown) => {
          assert.ok(error instanceof TypeError && !isHttpError(error))
          assert.match(
            error.message,
            /^taskEndpoints: owner must be a non-empty string, or undefined for an anonymous client; it is/,
          )
          return true
        })
      }
    })
  }

  test('a principal with an invalid subject fails loudly', async (t) => {
    const { status } = taskEndpoints<{ principal: object }>(created(t), {
      statusPath: '/tasks/{id}',
      owner: 'principal',
    })
    for (const subject of ['', 7, null, undefined]) {
      await assert.rejects(
        async () => status(request({ path: '/tasks/x', context: { principal: { subject } } })),
        /subject/,
      )
    }
  })
})

test('maxPerOwner counts clients without an owner by their network', async (t) => {
  for (const owner of ['anyone', byName] as const) {
    const api = site(t, owner)
    const few = async (peerAddress: string | undefined, name?: string) =>
      (await post(api, name, { path: '/few', ...(peerAddress !== undefined && { peerAddress }) })).status
    assert.deepEqual(
      [await few('192.0.2.1'), await few('192.0.2.1'), await few('::ffff:192.0.2.1'), await few('192.0.2.2')],
      [202, 429, 429, 202],
    )
    assert.deepEqual([await few('2001:db8::1'), await few('2001:db8::2')], [202, 429], 'one customer has a /64')
    assert.deepEqual([await few(undefined), await few(undefined)], [202, 429], 'those without an address count as one')
    if (owner !== 'anyone') assert.deepEqual([await few('192.0.2.1', 'ann'), await few('192.0.2.9', 'ann')], [202, 429])
  }
})

test("owner with anonymous: true contradicts 'principal'", (t) => {
  const options = { statusPath: '/tasks/{id}', owner: 'principal', anonymous: true } as const
  assert.throws(() => taskEndpoints(created(t), options), {
    name: 'TypeError',
    message: /^taskEndpoints: owner: 'principal' rejects anonymous clients; .*owner must be a function/,
  })
})
