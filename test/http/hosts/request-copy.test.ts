// A changed request reaches `next` and other handlers by `request.with`, in every binding. A copy
// fails with a sentence that says so.
import assert from 'node:assert/strict'
import { createServer } from 'node:http'
import { describe, test, type TestContext } from 'node:test'
import express from 'express'
import fastify from 'fastify'
import Koa from 'koa'
import {
  compose, createTasks, defineTask, json, router, taskEndpoints, type Handler, type HttpRequest, type Policy,
} from 'longhaul'
import { toFastify } from 'longhaul/fastify'
import { toFetch } from 'longhaul/fetch'
import { toKoa } from 'longhaul/koa'
import { memory } from 'longhaul/memory'
import { attach, requestOf, toMiddleware, toNode } from 'longhaul/node'
import { requestId, timeouts } from 'longhaul/policies'
import { inject } from 'longhaul/testing'
import { listen } from '../../kit/listen.js'

type Run = (
  handler: Handler,
  onError: (error: unknown) => void,
) => Promise<{ readonly status: number; readonly text: string }>

async function over(t: TestContext, server: ReturnType<typeof createServer>) {
  const running = await listen(server)
  t.after(() => running.close())
  const response = await fetch(`http://127.0.0.1:${running.port}/x`, { headers: { 'x-tenant': 'none' } })
  return { status: response.status, text: await response.text() }
}

const bindings: Readonly<Record<string, (t: TestContext) => Run>> = {
  'node:http': (t) => async (handler, onError) => over(t, attached(handler, onError)),
  Express: (t) => async (handler, onError) => over(t, createServer(express().use(toNode(handler, { onError })))),
  Koa: (t) => async (handler, onError) => over(t, createServer(new Koa().use(toKoa(handler, { onError })).callback())),
  Fastify: (t) => async (handler, onError) => {
    const app = fastify()
    t.after(() => app.close())
    app.all('/*', toFastify(handler, { onError }))
    const { statusCode, body } = await app.inject({ url: '/x', headers: { 'x-tenant': 'none' } })
    return { status: statusCode, text: body }
  },
  fetch: () => async (handler, onError) => {
    const response = await toFetch(handler, { onError })(
      new Request('http://localhost/x', { headers: { 'x-tenant': 'none' } }),
    )
    return { status: response.status, text: await response.text() }
  },
  inject: () => async (handler, onError) => {
    const answer = await inject(handler, { path: '/x', headers: { 'x-tenant': 'none' }, onError })
    return { status: answer.status, text: await answer.text() }
  },
}

function attached(handler: Handler, onError: (error: unknown) => void) {
  const server = createServer()
  attach(server, handler, { onError })
  return server
}

const tenantOf: Handler = ({ headers, path, peerAddress, context }) =>
  json(200, { tenant: headers['x-tenant'], path, hasContext: typeof context, peerAddress: typeof peerAddress })
const added: Policy = (request, next) => next(request.with({ headers: { ...request.headers, 'x-tenant': 'acme' } }))

/** Ways to copy a request that lose some of its members. */
const copies: Readonly<Record<string, (request: HttpRequest) => HttpRequest>> = {
  'a spread': (request) => ({ ...request, headers: { ...request.headers, 'x-tenant': 'acme' } }),
  'an object that inherits': (request) =>
    Object.create(request, { headers: { value: { 'x-tenant': 'acme' } } }) as HttpRequest,
  'a copy with the same prototype': (request) =>
    Object.assign(Object.create(Object.getPrototypeOf(request) as object) as object, { ...request }),
  'a proxy': (request) => new Proxy(request, {}),
}

/**
 * Where a changed request is passed on: a policy before a described handler, before a plain one,
 * and a wrapper of a handler.
 */
const ways: Readonly<Record<string, (change: (request: HttpRequest) => HttpRequest) => Handler>> = {
  'policy to a plain handler': (change) => compose((request, next) => next(change(request)), tenantOf),
  'policy to a policy': (change) =>
    compose((request, next) => next(change(request)), timeouts({ readMs: 1000 }), tenantOf),
  'policy behind others': (change) =>
    compose(requestId(), timeouts({ readMs: 1000, runMs: 1000 }), (request, next) => next(change(request)), tenantOf),
  'wrapper of a router': (change) => {
    const routes = router({ 'GET /x': tenantOf })
    return (request) => routes(change(request))
  },
}

for (const [name, binding] of Object.entries(bindings)) {
  describe(name, () => {
    for (const [way, handlerOf] of Object.entries(ways)) {
      test(`${way}: request.with passes a changed request on, with all its other properties`, async (t) => {
        const faults: unknown[] = []
        const { status, text } = await binding(t)(
          handlerOf((request) => request.with({ headers: { ...request.headers, 'x-tenant': 'acme' } })),
          (error) => faults.push(error),
        )
        assert.deepEqual([status, faults], [200, []])
        const { tenant, path, hasContext } = JSON.parse(text) as Record<string, unknown>
        assert.deepEqual([tenant, path, hasContext], ['acme', '/x', 'object'])
      })

      for (const [what, copy] of Object.entries(copies)) {
        test(`${way}: ${what} fails with a message that names request.with`, async (t) => {
          const faults: unknown[] = []
          const { status, text } = await binding(t)(handlerOf(copy), (error) => faults.push(error))
          assert.equal(status, 500, text)
          assert.match(String(faults[0]), /TypeError: .*request\.with\(\{ headers \}\)/)
        })
      }
    }
  })
}

test('the task endpoints use the headers and the owner of the changed request', async (t) => {
  const report = defineTask({ name: 'report', run: () => ({ message: 'Here.' }) })
  const tasks = createTasks({ ...memory(), definitions: [report] })
  t.after(() => tasks.close())
  const endpoints = taskEndpoints(tasks, {
    statusPath: '/tasks/{id}',
    anonymous: true,
    owner: ({ headers }) => headers['x-tenant'] as string,
  })
  const handler = compose(added, endpoints.submit(report))
  const answer = await inject(handler, {
    method: 'POST',
    path: '/reports',
    body: {},
    headers: { prefer: 'respond-async' },
  })
  const { taskId } = await answer.json<{ taskId: string }>()
  assert.equal((await tasks.ownedBy('acme').get(taskId))?.taskId, taskId)
})

test('requestOf returns the changed request in front of the handlers of an application, and a copy is rejected', async (t) => {
  for (const [change, status] of [
    [added, 200],
    [((request, next) => next({ ...request })) as Policy, 500],
  ] as const) {
    const app = express()
    app.use(toMiddleware(change, { onError: () => undefined }))
    app.get('/x', (req, res) => {
      res.json({ tenant: requestOf(req)?.headers['x-tenant'] })
    })
    const answer = await over(t, createServer(app))
    assert.equal(answer.status, status)
    if (status === 200) assert.deepEqual(JSON.parse(answer.text), { tenant: 'acme' })
  }
})

test('a framework that calls a handler without a binding gets an error message, with any second argument', () => {
  const handler = router({ 'GET /x': tenantOf })
  for (const second of [{}, () => undefined]) {
    assert.throws(() => (handler as (...args: unknown[]) => unknown)({ method: 'GET', url: '/x' }, second), {
      name: 'TypeError',
      message: /toNode\(handler\)/,
    })
  }
})
