// What docs/guide/embedding.md shows of users and errors: it takes the regions from here.
import assert from 'node:assert/strict'
import { once } from 'node:events'
import type { AddressInfo } from 'node:net'
import { describe, test } from 'node:test'
import { serve } from '@hono/node-server'
import express from 'express'
import { fastify } from 'fastify'
import { Hono } from 'hono'
import {
  createTasks, defineTask, json, reportErrorsTo, router, taskEndpoints, type Handler, type HttpRequest,
} from 'longhaul'
import { fastifyLonghaul } from 'longhaul/fastify'
import { toFetch } from 'longhaul/fetch'
import { memory } from 'longhaul/memory'
import { toNode } from 'longhaul/node'

interface User { readonly id: string }

/** The application's own authentication. */
async function findUser(authorization: string | undefined): Promise<User | undefined> {
  return Promise.resolve(authorization === undefined ? undefined : { id: authorization.replace('Bearer ', '') })
}

function setUp() {
  const report = defineTask({ name: 'report', run: () => 'done' })
  const tasks = createTasks({ ...memory(), definitions: [report] })
  interface Context { readonly user?: User }

  const { submit, status } = taskEndpoints(tasks, {
    statusPath: '/tasks/{id}',
    owner: ({ context }: HttpRequest<Context>) => context.user?.id,
  })
  const api = router<Context>({ 'POST /reports': submit(report), 'GET|HEAD|DELETE /tasks/{id}': status })
  return { tasks, api }
}

/** Starts a task as ann, and asks for it as ann and as bob. */
async function seenBy(origin: string): Promise<number[]> {
  const as = (user: string) => ({ authorization: `Bearer ${user}` })
  const accepted = await fetch(`${origin}/api/reports`, {
    method: 'POST',
    headers: { ...as('ann'), 'prefer': 'respond-async', 'content-type': 'application/json' },
    body: '{}',
  })
  const location = String(accepted.headers.get('location'))
  assert.match(location, /^\/api\/tasks\//)
  const asked = await Promise.all(['ann', 'bob'].map((user) => fetch(origin + location, { headers: as(user) })))
  return [accepted.status, ...asked.map((answer) => answer.status)]
}

describe('the user of the application is the owner of the task', () => {
  test('express', async (t) => {
    const { tasks, api } = setUp()
    t.after(() => tasks.close())
    const app = express()
    // #region express
    app.use(async (req, _res, next) => {
      Object.assign(req, { user: await findUser(req.headers.authorization) })
      next()
    })
    app.use('/api', toNode(api))
    // #endregion
    const server = app.listen(0)
    t.after(() => { server.closeAllConnections(); server.close() })
    await once(server, 'listening')
    assert.deepEqual(await seenBy(`http://127.0.0.1:${(server.address() as AddressInfo).port}`), [202, 200, 404])
  })

  test('fastify', async (t) => {
    const { tasks, api } = setUp()
    t.after(() => tasks.close())
    // #region fastify
    const app = fastify()
    app.decorateRequest('user', undefined)
    app.addHook('onRequest', async (request) => {
      request.setDecorator('user', await findUser(request.headers.authorization))
    })
    app.register(fastifyLonghaul, { prefix: '/api', handler: api })
    // #endregion
    t.after(() => app.close())
    assert.deepEqual(await seenBy(await app.listen({ port: 0, host: '127.0.0.1' })), [202, 200, 404])
  })

  test('hono', async (t) => {
    const { tasks, api } = setUp()
    t.after(() => tasks.close())
    // #region hono
    const app = new Hono<{ Variables: { user: User | undefined } }>()
    app.use(async (c, next) => {
      c.set('user', await findUser(c.req.header('authorization')))
      await next()
    })

    const handle = toFetch(api, { mountPath: '/api' })
    app.all('/api/*', (c) => {
      const user = c.get('user')
      return handle(c.req.raw, { context: user === undefined ? {} : { user } })
    })
    // #endregion
    const server = serve({ fetch: app.fetch, port: 0, hostname: '127.0.0.1' })
    t.after(() => { server.close() })
    await once(server, 'listening')
    assert.deepEqual(await seenBy(`http://127.0.0.1:${(server.address() as AddressInfo).port}`), [202, 200, 404])
  })
})

test('one error handler serves all routes', async () => {
  const captured: unknown[] = []
  const Sentry = { captureException: (error: unknown, _more: object) => { captured.push(error) } }
  const stop = reportErrorsTo((error, { request, task }) => {
    Sentry.captureException(error, { extra: { path: request?.path, task } })
  })
  const fault = new Error('The database is away')
  const broken: Handler = ({ path }) => {
    if (path === '/broken') throw fault
    return json(200, {})
  }
  assert.equal((await toFetch(broken)(new Request('http://test/broken'))).status, 500)
  assert.deepEqual(captured, [fault])
  stop()
})
