// Tenants in one process: what counts for them, what names them, and which ids are rejected.
import assert from 'node:assert/strict'
import { subscribe, unsubscribe } from 'node:diagnostics_channel'
import { describe, test, type TestContext } from 'node:test'
import { inspect } from 'node:util'
import { memory } from '../../../../adapters/memory/index.js'
import { mcpTasks, mcpTool } from '../../../../adapters/mcp/index.js'
import { bulkCreate } from '../../../../src/bulk/index.js'
import { callbacks } from '../../../../src/callbacks/index.js'
import type { CallbackRequest } from '../../../../src/callbacks/index.js'
import { countedAs } from '../../../../src/http/requester.js'
import type { HttpRequest } from '../../../../src/http/exchange.js'
import type { TenantOwner } from '../../../../src/http/requester.js'
import { idempotent } from '../../../../src/idempotency/policy.js'
import {
  compose, createTasks, defineTask, json, jsonSchema, router, taskEndpoints, type FailedWork, type TasksOptions,
} from '../../../../src/index.js'
import { ndjsonUpload } from '../../../../src/ndjson/index.js'
import { authenticate, limitConcurrency, rateLimit } from '../../../../src/policies/index.js'
import { inject, testContext } from '../../../../src/testing/index.js'
import { deferred, eventually } from '../../../kit/wait.js'
import { ask, request } from '../../kit/request.js'

const work = defineTask({ name: 'work', run: () => 'done' })

function created(t: TestContext, options: Partial<TasksOptions> = {}) {
  const tasks = createTasks({ ...memory(), definitions: [work], onError: () => undefined, ...options })
  t.after(() => tasks.close({ drainMs: 0 }))
  return tasks
}

const WRONG: readonly (readonly [unknown, RegExp])[] = [
  ['', /tenant must be a non-empty string, or undefined for no tenant; it is empty/],
  [7, /it is a number: write String\(id\)/],
  [null, /it is null: write undefined/],
  [Promise.resolve('acme'), /it is a promise/],
  [{ id: 'acme' }, /it is of the type object/],
  ['a'.repeat(513), /it has 513 characters/],
  ['a'.repeat(510), /owner and tenant together must have at most 511 characters; they have 513/],
  ['a\u0000', /without U\+0000 or U\+001F/],
  ['a\u001Fb', /without U\+0000 or U\+001F/],
  ['\uD800', /well-formed/],
]

describe('a tenant that is no id throws a TypeError that says what to do', () => {
  for (const [tenant, message] of WRONG) test(inspect(tenant).slice(0, 40), async (t) => {
    const tasks = created(t)
    const wrong = { owner: 'ann', tenant } as TenantOwner
    const about = (error: unknown): boolean => error instanceof TypeError && message.test(error.message)
    const { status } = taskEndpoints(tasks, { statusPath: '/{id}', owner: () => wrong })
    await assert.rejects(async () => status(request({ path: '/x' })), about)
    const principal = { subject: 'ann', tenant }
    const byPrincipal = taskEndpoints(tasks, { statusPath: '/{id}', owner: 'principal' })
    await assert.rejects(async () => byPrincipal.status(request({ path: '/x', context: { principal } })), (error) => (
      error instanceof TypeError && /principal/.test(error.message)
    ))
    assert.throws(() => tasks.ownedBy('ann', { tenant: wrong.tenant }), about)
    await assert.rejects(tasks.submit(work, undefined, { owner: 'ann', tenant: wrong.tenant }), about)
  })

  test('an owner has the separator of tenants', (t) => {
    assert.throws(() => created(t).ownedBy('acme\u001Fann'), /without U\+0000 or U\+001F/)
  })

  test('a list has a tenant that is no id, or names a tenant for one owner', async (t) => {
    const tasks = created(t)
    await assert.rejects(tasks.list({ tenant: '' }), /list: tenant must be the id of a tenant/)
    await assert.rejects(tasks.ownedBy('ann').list({ tenant: 'acme' } as never), /there is no option "tenant"/)
  })

  test('an anonymous client has a tenant', async (t) => {
    const tasks = created(t)
    const owner = (): TenantOwner => ({ owner: undefined, tenant: 'acme' })
    const { status } = taskEndpoints(tasks, { statusPath: '/{id}', owner, anonymous: true })
    await assert.rejects(async () => status(request({ path: '/x' })), /an anonymous client belongs to no tenant/)
    assert.throws(() => tasks.ownedBy(undefined, { tenant: 'acme' }), /an anonymous client belongs to no tenant/)
    const strict = taskEndpoints(tasks, { statusPath: '/{id}', owner })
    await assert.rejects(async () => strict.status(request({ path: '/x' })), { code: 'unauthorized' })
  })

  for (const [given, message] of [
    [{ id: 'ann' }, /there is no option "id"/], [{ owner: 'ann', tenent: 'acme' }, /did you mean "tenant"/],
    [{ tenant: 'acme' }, /the property owner is missing/], [{}, /the property owner is missing/],
  ] as const) test(`the owner function returns ${inspect(given)}`, async (t) => {
    const { status } = taskEndpoints(created(t), { statusPath: '/{id}', owner: () => given as never })
    await assert.rejects(async () => status(request({ path: '/x' })), (error) => (
      error instanceof TypeError && message.test(error.message)
    ))
  })
})

describe('all users of a tenant', () => {
  test('get one turn among other callers, however many they are', async (t) => {
    const gate = deferred()
    const ran: unknown[] = []
    const slow = defineTask({
      name: 'slow', input: jsonSchema<string>({ type: 'string' }),
      run: async (input, { tenant }) => {
        if (input === 'first') await gate.promise
        ran.push(tenant)
      },
    })
    const tasks = createTasks({ ...memory(), definitions: [slow], concurrency: 1 })
    t.after(() => tasks.close({ drainMs: 0 }))
    await tasks.submit(slow, 'first')
    for (let n = 0; n < 100; n++) await tasks.ownedBy(`user-${String(n)}`, { tenant: 'acme' }).submit(slow, 'a')
    await tasks.ownedBy('ann', { tenant: 'bolt' }).submit(slow, 'b')
    gate.resolve()
    await eventually(() => ran.length === 102)
    assert.deepEqual(ran.slice(0, 4), [undefined, 'acme', 'bolt', 'acme'])
  })

  test('share maxRunningPerOwner', async (t) => {
    const gate = deferred()
    const begun: unknown[] = []
    const few = defineTask({
      name: 'few', maxRunningPerOwner: 1,
      run: async (_input: unknown, { owner, tenant }) => {
        begun.push(`${String(tenant)}/${String(owner)}`)
        await gate.promise
      },
    })
    const tasks = created(t, { definitions: [few] })
    t.after(() => { gate.resolve() })
    for (const [owner, tenant] of [['ann', 'acme'], ['bob', 'acme'], ['ann', 'bolt'], ['acme', undefined]] as const) {
      await tasks.ownedBy(owner, { tenant }).submit(few, 1)
    }
    await eventually(() => begun.length === 3)
    assert.deepEqual(begun, ['acme/ann', 'bolt/ann', 'undefined/acme'])
    gate.resolve()
    await eventually(() => begun.length === 4)
  })

  test('are one caller of the policies that count principals', async () => {
    const { store } = memory()
    const of = (subject: string, tenant?: string) => ({ principal: { subject, tenant } })
    const policies = [{ name: 'few', limit: 2, windowSeconds: 60 }]
    const limited = compose(rateLimit({ store, policies, onStoreError: 'deny' }), () => json(200, {}))
    const status = async (context: object) => (await ask(limited, { context })).status
    assert.deepEqual(await Promise.all([status(of('ann', 'acme')), status(of('bob', 'acme'))]), [200, 200])
    assert.equal(await status(of('cid', 'acme')), 429)
    for (const other of [of('ann', 'bolt'), of('acme'), of('ann')]) assert.equal(await status(other), 200)
    await assert.rejects(
      async () => limited(request({ context: of('ann', 7 as never) })), /the tenant of the principal must be/,
    )

    const gate = deferred()
    const busy = compose(limitConcurrency({ maxConcurrent: 9, maxPerCaller: 1 }), async () => {
      await gate.promise
      return json(200, {})
    })
    const first = ask(busy, { context: of('ann', 'acme') })
    assert.equal((await ask(busy as never, { context: of('bob', 'acme') })).status, 429)
    const other = ask(busy, { context: of('bob', 'bolt') })
    gate.resolve()
    assert.deepEqual([(await first).status, (await other).status], [200, 200])
  })

  test('are one caller of bodies, waits and streams', () => {
    const of = (subject: string, tenant?: string) => countedAs(request({ context: { principal: { subject, tenant } } }))
    assert.equal(of('ann', 'acme'), of('bob', 'acme'))
    assert.equal(new Set([of('ann', 'acme'), of('ann', 'bolt'), of('ann'), of('acme'), of('tenant acme')]).size, 5)
    assert.equal(countedAs(request(), 'acme\u001Fann'), of('eve', 'acme'))
  })

  test('keep their own keys of synchronous requests', async () => {
    const { store } = memory()
    let count = 0
    const site = compose(
      authenticate<{ subject: string, tenant: string }>({
        schemes: [{
          name: 'x', cacheable: false,
          read: ({ headers }) => String(headers['x-user']), challenge: () => 'X',
          verify: (user) => ({ subject: user.split('@')[0] as string, tenant: user.split('@')[1] as string }),
        }],
      }),
      idempotent({ store, caller: 'principal' }),
      () => json(200, { count: ++count }),
    )
    const post = async (user: string) => (await inject(site, {
      method: 'POST', path: '/', body: {}, headers: { 'x-user': user, 'idempotency-key': 'k' }, context: {},
    })).json()
    assert.deepEqual(await post('ann@acme'), { count: 1 })
    assert.deepEqual(await post('ann@bolt'), { count: 2 })
    assert.deepEqual(await post('bob@acme'), { count: 3 })
    assert.deepEqual(await post('ann@acme'), { count: 1 })
  })
})

test("keys of owner: 'anyone' belong to the principal in its tenant", async (t) => {
  const { submit } = taskEndpoints(created(t), { statusPath: '/{id}', owner: 'anyone' })
  const site = router<object>({ 'POST /': submit(work) })
  const post = async (context: object) => (await (await inject(site, {
    method: 'POST', path: '/', body: {}, headers: { 'idempotency-key': 'k', 'prefer': 'respond-async' }, context,
  })).json<{ taskId: string }>()).taskId
  const of = (subject: string, tenant?: string) => post({ principal: { subject, tenant } })
  const ids = [await of('ann', 'acme'), await of('ann', 'bolt'), await of('ann'), await of('bob', 'acme')]
  assert.equal(new Set(ids).size, 4)
  assert.equal(await of('ann', 'acme'), ids[0])
})

describe('owner and tenant are told apart', () => {
  test('in the secrets and the event of a callback, and callbacks count for the tenant', async (t) => {
    const asked: unknown[] = []
    const heard: unknown[] = []
    const sending: CallbackRequest[] = []
    const gate = deferred()
    const hear = (event: unknown): void => { heard.push(event) }
    subscribe('longhaul:callback', hear)
    t.after(() => { unsubscribe('longhaul:callback', hear) })
    t.after(() => { gate.resolve() })
    const tasks = created(t, {
      callbacks: callbacks({
        secrets: (...of) => {
          asked.push(of)
          return [Buffer.alloc(32).toString('base64')]
        },
        maxPerOwner: 1,
        sender: {
          check: () => undefined,
          send: async (each) => {
            sending.push(each)
            await gate.promise
            return { status: 204 }
          },
        },
      }),
    })
    for (const [owner, tenant] of [['ann', 'acme'], ['bob', 'acme'], ['ann', 'bolt']] as const) {
      const callbackUrl = `https://${tenant}-${owner}.example.com/`
      await tasks.ownedBy(owner, { tenant }).submit(work, undefined, { callbackUrl })
    }
    await eventually(() => sending.length === 2)
    assert.deepEqual(sending.map(({ url }) => new URL(url).hostname).sort(), ['acme-ann.example.com', 'bolt-ann.example.com'])
    gate.resolve()
    await eventually(() => heard.length === 3, 30_000)
    const named = new Set(asked.map((each) => JSON.stringify(each)))
    assert.deepEqual(named, new Set(['["ann","acme"]', '["bob","acme"]', '["ann","bolt"]']))
    assert.deepEqual(new Set(heard.map((each) => {
      const { owner, tenant } = each as { owner: string, tenant: string }
      return JSON.stringify([owner, tenant])
    })), named)
  })

  test('in the events of tasks, in run, and in onFailed', async (t) => {
    const heard: unknown[] = []
    const hear = (event: unknown): void => {
      const { owner, tenant } = event as { owner: string, tenant: string }
      heard.push([owner, tenant])
    }
    subscribe('longhaul:task', hear)
    t.after(() => { unsubscribe('longhaul:task', hear) })
    const alerts: FailedWork[] = []
    const alert = defineTask({ name: 'alert', run: (failed: FailedWork) => { alerts.push(failed) } })
    const fails = defineTask({
      name: 'fails', onFailed: alert, run: (_input: unknown, { owner, tenant }) => { throw new Error(`${String(tenant)}/${String(owner)}`) },
    })
    const tasks = created(t, { definitions: [fails, alert] })
    await tasks.ownedBy('ann', { tenant: 'acme' }).submit(fails, 1)
    await eventually(() => alerts.length === 1)
    const [{ owner, tenant, cause }] = alerts as [FailedWork]
    assert.deepEqual([owner, tenant, cause?.message], ['ann', 'acme', 'acme/ann'])
    assert.deepEqual(heard[0], ['ann', 'acme'])
    await tasks.submit(fails, 1, { tenant: 'acme' })
    await eventually(() => alerts.length === 2)
    assert.deepEqual([alerts[1]?.owner, alerts[1]?.tenant, 'owner' in (alerts[1] as FailedWork)], [undefined, 'acme', false])
  })

  test('in a synchronous run and in a test context', async (t) => {
    const shows = defineTask({ name: 'shows', run: (_input: unknown, { owner, tenant }) => ({ owner, tenant }) })
    const { submit } = taskEndpoints(created(t, { definitions: [shows] }), {
      statusPath: '/{id}', owner: (_request: HttpRequest) => ({ owner: 'ann', tenant: 'acme' }),
    })
    const response = await inject(router({ 'POST /': submit(shows) }), { method: 'POST', path: '/', body: {} })
    assert.deepEqual(await response.json(), { owner: 'ann', tenant: 'acme' })
    const { owner, tenant } = testContext(shows, { owner: 'ann', tenant: 'acme' })
    assert.deepEqual([owner, tenant], ['ann', 'acme'])
  })

  test('in the writes of bulk requests and uploads, at once and in the background', async (t) => {
    const { blobs, ...parts } = memory()
    const seen: unknown[] = []
    const schema = jsonSchema<object>({ type: 'object' })
    const bulk = bulkCreate({
      repository: {
        create: (_item: object, { owner, tenant }) => {
          seen.push([owner, tenant])
          return { id: '1' }
        },
      },
      schema, background: { name: 'bulk', blobs },
    })
    const upload = ndjsonUpload({
      schema, write: (_items, { owner, tenant }) => { seen.push([owner, tenant]) }, background: { name: 'upload', blobs },
    })
    const tasks = created(t, { ...parts, blobs, definitions: [bulk.task, upload.task] })
    const endpoints = taskEndpoints(tasks, {
      statusPath: '/{id}', owner: (_request: HttpRequest) => ({ owner: 'ann', tenant: 'acme' }),
    })
    const site = router({ 'POST /bulk': bulk.handler(endpoints), 'POST /upload': upload.handler(endpoints) })
    const headers = { 'prefer': 'respond-async', 'idempotency-key': 'k' }
    const sent = [
      { path: '/bulk', body: [{}] }, { path: '/bulk', body: [{}], headers },
      { path: '/upload', body: '{}\n', headers: { 'content-type': 'application/x-ndjson' } },
      { path: '/upload', body: '{}\n', headers: { ...headers, 'content-type': 'application/x-ndjson' } },
    ]
    for (const [n, each] of sent.entries()) {
      const response = await inject(site, { method: 'POST', ...each })
      assert.ok(response.status < 300, await response.text())
      await eventually(() => seen.length === n + 1)
    }
    assert.deepEqual(seen, sent.map(() => ['ann', 'acme']))
  })

  test('in the calls of an MCP client', async (t) => {
    const mcp = mcpTasks(created(t), {
      tools: [mcpTool(work)],
      owner: (authInfo) => ({ owner: authInfo?.clientId, tenant: authInfo?.extra?.['org'] }),
    })
    const send = async (method: string, params: object, clientId: string | undefined, org?: unknown) => {
      const authInfo = { clientId: clientId as string, scopes: [], extra: { org } }
      return mcp.handle({ jsonrpc: '2.0', id: 1, method, params: { ...params, _meta: {
        'io.modelcontextprotocol/clientCapabilities': { extensions: { 'io.modelcontextprotocol/tasks': {} } },
      } } }, { authInfo })
    }
    const called = await send('tools/call', { name: 'work' }, 'ann', 'acme')
    const taskId = called?.result?.['taskId']
    assert.ok(taskId)
    assert.equal((await send('tasks/get', { taskId }, 'ann', 'acme'))?.error, undefined)
    for (const [clientId, org] of [['ann', 'bolt'], ['ann'], ['bob', 'acme'], ['acme']] as const) {
      for (const method of ['get', 'cancel', 'update']) {
        const [real, unknown]: unknown[] = await Promise.all([taskId, 'unknown'].map((each) => (
          send(`tasks/${method}`, { taskId: each, inputResponses: {} }, clientId, org)
        )))
        assert.deepEqual(real, unknown)
        assert.match(JSON.stringify(real), /"error"/)
      }
    }
    assert.match(JSON.stringify((await send('tools/call', { name: 'work' }, undefined))?.error), /Authentication is required/)
    assert.equal((await send('tools/call', { name: 'work' }, 'ann', 7))?.error?.['code'], -32_603)
  })
})
