// Issue 15, C14: tasks, keys and limits behind an Express that knows its users itself.
import assert from 'node:assert/strict'
import { createServer } from 'node:http'
import { describe, test, type TestContext } from 'node:test'
import express, { type NextFunction, type Request, type Response } from 'express'
import { memory } from '../../../adapters/memory/index.js'
import { toMiddleware, toNode } from '../../../adapters/node/index.js'
import type { NodeOptions } from '../../../adapters/node/binding.js'
import { authenticate } from '../../../src/policies/authenticate.js'
import { authorize } from '../../../src/policies/authenticate.js'
import { hostUser } from '../../../src/policies/schemes.js'
import { rateLimit } from '../../../src/policies/rate-limit.js'
import { router } from '../../../src/resources/router.js'
import { createTasks, coreOf } from '../../../src/tasks/tasks.js'
import { defineTask } from '../../../src/tasks/definition/define.js'
import { taskEndpoints } from '../../../src/tasks/http/endpoints.js'
import type { OwnerOption } from '../../../src/http/requester.js'
import { listen } from '../../kit/listen.js'
import { ask } from '../kit/wire.js'

interface Context { user?: { id: number, name: string } }

const JSON_TYPE = { 'content-type': 'application/json' }
const USERS = new Map([['ann', 1], ['bob', 2]])

/** What Passport or a session does: a header stands for the cookie. */
function session(req: Request, _res: Response, next: NextFunction): void {
  const name = req.headers['x-session']
  if (typeof name === 'string') (req as { user?: unknown }).user = { id: USERS.get(name), name }
  next()
}

async function site(
  t: TestContext,
  owner: OwnerOption<Context>,
  options: NodeOptions<Context> = {},
  policies: Parameters<typeof toMiddleware>[0][] = [],
) {
  const secret = defineTask({
    name: 'secret',
    maxPerOwner: 2,
    run: (input: { of: string }) => ({ message: 'done', of: input.of }),
  })
  const idle = defineTask({
    name: 'idle',
    maxPerOwner: 1,
    run: (_, { signal }) =>
      new Promise((resolve) => {
        signal.addEventListener('abort', resolve)
      }),
  })
  const engine = memory()
  const tasks = createTasks({ ...engine, definitions: [secret, idle] })
  const { submit, status } = taskEndpoints<Context>(tasks, { statusPath: '/tasks/{id}', owner })
  const heard: unknown[] = []
  const app = express()
  app.use(
    session,
    ...policies.map((policy) =>
      toMiddleware(policy, {
        onError: (error) => {
          heard.push(error)
        },
      }),
    ),
  )
  app.use(
    '/api',
    toNode(
      router<Context>({
        'POST /secret': submit(secret),
        'POST /idle': submit(idle),
        'GET|HEAD|DELETE /tasks/{id}': status,
      }),
      {
        onError: (error) => {
          heard.push(error)
        },
        ...options,
      },
    ),
  )
  const { port, close } = await listen(createServer(app))
  t.after(async () => {
    await close()
    await tasks.close({ drainMs: 0 })
  })
  const as = (name: string | undefined) => (name === undefined ? {} : { 'x-session': name })
  return {
    tasks,
    heard,
    post: (path: string, name: string | undefined, body: unknown, headers: Record<string, string> = {}) =>
      ask(port, 'POST', `/api${path}`, {
        body: JSON.stringify(body),
        headers: { ...JSON_TYPE, ...as(name), ...headers },
      }),
    call: (method: string, path: string, name: string | undefined) => ask(port, method, path, { headers: as(name) }),
  }
}

const byUser: OwnerOption<Context> = ({ context }) => context.user === undefined ? undefined : String(context.user.id)
const toPrincipal = authenticate({
  optional: true,
  schemes: [hostUser(({ context }) => {
    const { user } = context as Context
    return user && { subject: String(user.id) }
  })],
})
const WAYS: readonly (readonly [
  string,
  Parameters<typeof site>[1],
  ...(readonly [NodeOptions<Context>?, Parameters<typeof toMiddleware>[0][]?]),
])[] = [
  ['a function of req.user', byUser],
  [
    'principal, mapped by the context of the binding',
    'principal',
    {
      context: (req) => {
        const { user } = req as unknown as Context
        return (user ? { user, principal: { subject: String(user.id) } } : {}) as Context
      },
    },
  ],
  ['principal, mapped by hostUser in a middleware', 'principal', {}, [toPrincipal]],
]

for (const [name, owner, options, policies] of WAYS) {
  describe(`owner: ${name}`, () => {
    for (const prefer of ['respond-async', 'respond-async, wait=5', 'return=representation']) {
      test(`gives another user with the same Idempotency-Key neither the task nor its result: ${prefer}`, async (t) => {
        const { post } = await site(t, owner, options, policies)
        const headers = { 'idempotency-key': 'k', prefer }
        const [ann, bob] = [
          await post('/secret', 'ann', { of: 'x' }, headers),
          await post('/secret', 'bob', { of: 'x' }, headers),
        ]
        assert.ok(ann.status === 200 || ann.status === 202, ann.body)
        assert.equal(bob.status, ann.status)
        assert.equal(bob.headers['idempotent-replayed'], undefined)
        if (ann.headers.location !== undefined) assert.notEqual(bob.headers.location, ann.headers.location)
        const retried = await post('/secret', 'ann', { of: 'x' }, headers)
        assert.equal(retried.headers['idempotent-replayed'], 'true')
        // Another body would be a 422 if the key were shared.
        assert.equal((await post('/secret', 'bob', { of: 'y' }, headers)).status, 422)
      })
    }

    test('responds to status, events and cancel of another user as if there were no such task', async (t) => {
      const { tasks, post, call } = await site(t, owner, options, policies)
      const { taskId } = JSON.parse((await post('/idle', 'ann', {}, { prefer: 'respond-async' })).body) as {
        taskId: string
      }
      assert.equal((await coreOf(tasks).read(taskId))?.owner, '1')
      const path = `/api/tasks/${taskId}`
      for (const method of ['GET', 'HEAD', 'DELETE']) {
        assert.equal((await call(method, path, 'bob')).status, 404, method)
        assert.equal((await call(method, path, undefined)).status, 401, method)
      }
      assert.equal((await tasks.get(taskId))?.status, 'processing')
      assert.equal((await call('DELETE', path, 'ann')).status, 200)
    })

    test('counts maxPerOwner for each user', async (t) => {
      const { post } = await site(t, owner, options, policies)
      const start = async (user: string | undefined) =>
        (await post('/idle', user, {}, { prefer: 'respond-async' })).status
      assert.deepEqual([await start('ann'), await start('ann'), await start('bob')], [202, 429, 202])
      assert.equal(await start(undefined), 401)
    })
  })
}

describe('a req.user without a principal gets a 500, is never anonymous, and onError says what to do', () => {
  const says = /context\.user \(req\.user\), but there is no context\.principal\. Say which subject/

  test("owner: 'principal'", async (t) => {
    const { post, call, heard } = await site(t, 'principal')
    assert.equal((await post('/secret', 'ann', {}, { prefer: 'respond-async' })).status, 500)
    assert.equal((await call('GET', '/api/tasks/x', 'ann')).status, 500)
    assert.deepEqual(heard.map((error) => says.test(String(error))), [true, true])
    assert.equal((await call('GET', '/api/tasks/x', undefined)).status, 401)
  })

  test('with an owner that is a number', async (t) => {
    const { post, heard } = await site(t, (({ context }: { context: Context }) => context.user?.id) as never)
    assert.equal((await post('/secret', 'ann', {}, { prefer: 'respond-async' })).status, 500)
    assert.match(String(heard[0]), /it is a number: write String\(id\)/)
  })

  for (const [policy, make] of [
    [
      'rateLimit',
      () =>
        rateLimit({
          store: memory().store,
          policies: [{ name: 'few', limit: 1, windowSeconds: 60 }],
          onStoreError: 'deny',
        }),
    ],
    ['authorize', () => authorize({ allow: () => true, reason: 'none' })],
  ] as const) {
    test(policy, async (t) => {
      const { call, heard } = await site(t, byUser, {}, [make()])
      assert.equal((await call('GET', '/api/tasks/x', 'ann')).status, 500)
      assert.match(String(heard[0]), says)
      assert.equal((await call('GET', '/api/tasks/x', undefined)).status, 401)
    })
  }

  test('with an Idempotency-Key, which all users would share', async (t) => {
    const { post, heard } = await site(t, 'anyone')
    const headers = { 'idempotency-key': 'k', 'prefer': 'respond-async' }
    assert.equal((await post('/secret', 'ann', { of: 'x' }, headers)).status, 500)
    assert.match(String(heard[0]), says)
    assert.equal((await post('/secret', undefined, { of: 'x' }, headers)).status, 202)
  })

  test('rateLimit counts each user behind hostUser, with any address', async (t) => {
    const limit = rateLimit({
      store: memory().store,
      policies: [{ name: 'few', limit: 1, windowSeconds: 60 }],
      onStoreError: 'deny',
    })
    const { call } = await site(t, byUser, {}, [toPrincipal, limit])
    const statuses = []
    for (const name of ['ann', 'ann', 'bob', undefined, undefined])
      statuses.push((await call('GET', '/api/tasks/x', name)).status)
    assert.deepEqual(statuses, [404, 429, 404, 401, 429])
  })
})
