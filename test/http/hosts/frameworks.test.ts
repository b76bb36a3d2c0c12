import assert from 'node:assert/strict'
import { describe, test } from 'node:test'
import Router from '@koa/router'
import fastify from 'fastify'
import Koa from 'koa'
import { fastifyLonghaul, toFastify } from '../../../adapters/fastify/index.js'
import { toKoa } from '../../../adapters/koa/index.js'
import { httpError } from '../../../src/http/errors.js'
import type { Handler } from '../../../src/http/exchange.js'
import { json } from '../../../src/http/respond.js'
import { readJson } from '../../../src/http/body/body.js'
import { router } from '../../../src/resources/router.js'

const api = router<{ user?: { name: string } }>({
  'GET /me/{id}': ({ params, mountPath, context }) =>
    json(200, { params, mountPath, user: context.user?.name ?? null }),
  'POST /echo': async (request) => json(200, await readJson(request, { maxBodyBytes: 1000 })),
  'GET /fails': () => {
    throw new Error('secret')
  },
})

describe('longhaul/fastify', () => {
  test('serves a plugin beside the application\'s routes, with prefixes that have parameters, its 404 and its hooks', async () => {
    const app = fastify()
    const sent: string[] = []
    app.addHook('onResponse', (request, reply, done) => { sent.push(`${request.url} ${reply.statusCode}`); done() })
    app.register(fastifyLonghaul<{ user?: { name: string } }>, {
      prefix: '/t/:tenant',
      handler: api,
      context: (request) => ({ user: { name: request.ip } }),
    })
    app.post('/own', (request) => request.body)
    const own = await app.inject({ method: 'POST', url: '/own', payload: { a: 1 } })
    assert.deepEqual([own.statusCode, own.json()], [200, { a: 1 }], 'its own parser still works elsewhere')
    assert.deepEqual((await app.inject('/t/acme/me/7')).json(), {
      params: { tenant: 'acme', id: '7' },
      mountPath: '/t/acme',
      user: '127.0.0.1',
    })
    const missing = await app.inject('/t/acme/nothing')
    assert.deepEqual([missing.statusCode, missing.json()['message']], [404, 'Route GET:/t/acme/nothing not found'])
    assert.deepEqual((await app.inject({ method: 'POST', url: '/t/acme/echo', payload: { b: 2 } })).json(), { b: 2 })
    assert.deepEqual((await app.inject({ method: 'OPTIONS', url: '/t/acme/echo' })).headers['allow'], 'POST, OPTIONS')
    await app.close()
    assert.ok(sent.includes('/t/acme/me/7 200'), 'onResponse hooks hear of our answers')
  })

  test('masks a failure for the client, and logs all of it', async () => {
    const lines: string[] = []
    const app = fastify({ logger: { level: 'error', stream: { write: (line: string) => { lines.push(line) } } } })
    app.register(fastifyLonghaul, { handler: api })
    const { statusCode, body } = await app.inject('/fails')
    assert.deepEqual([statusCode, JSON.parse(body)['code'], body.includes('secret')], [500, 'internal_error', false])
    assert.match(lines.join(''), /secret/)
    await app.close()
  })

  test('uses the body that Fastify has parsed in a single route', async () => {
    const app = fastify()
    app.post('/echo', toFastify(async (request) => json(200, await readJson(request, { maxBodyBytes: 1000 }))))
    app.get('/refuses', toFastify(() => { throw httpError('conflict') }))
    assert.deepEqual((await app.inject({ method: 'POST', url: '/echo', payload: { c: 3 } })).json(), { c: 3 })
    const refused = await app.inject('/refuses')
    assert.deepEqual([refused.statusCode, refused.json()['code']], [409, 'conflict'])
    await app.close()
  })

  test('fails for an invalid handler when the app becomes ready', async () => {
    const app = fastify()
    app.register(fastifyLonghaul, { handler: undefined as never })
    await assert.rejects(async () => { await app.ready() }, /the option handler is missing/)
  })
})

describe('longhaul/koa', () => {
  test('lets earlier middleware continue after the response, and passes failures to the app', async () => {
    const app = new Koa()
    const seen: unknown[] = []
    app.on('error', (error: Error, ctx: Koa.Context) => { seen.push(error.message, ctx.path) })
    app.use(async (ctx, next) => {
      await next()
      seen.push(ctx.res.statusCode, ctx.headerSent)
    })
    app.use(toKoa(api as never))
    const server = app.listen(0, '127.0.0.1')
    await new Promise((resolve) => server.once('listening', resolve))
    const { port } = server.address() as { port: number }
    const response = await fetch(`http://127.0.0.1:${port}/fails`)
    assert.deepEqual([response.status, (await response.json() as { code: string }).code], [500, 'internal_error'])
    const missing = await fetch(`http://127.0.0.1:${port}/nothing`)
    assert.deepEqual([missing.status, await missing.text()], [404, 'Not Found'])
    await new Promise((resolve) => { server.close(resolve); server.closeAllConnections() })
    assert.deepEqual(seen, ['secret', '/fails', 500, true, 404, false])
  })

  test('uses the prefix in a route of @koa/router as the mount path', async () => {
    const router = new Router({ prefix: '/api' })
    const shows: Handler = ({ path, mountPath, params }) => json(200, { path, mountPath, params })
    router.get('/things/:id', toKoa(shows, { mountPath: '/api/' }))
    const app = new Koa()
    app.use(router.routes() as never)
    const server = app.listen(0, '127.0.0.1')
    await new Promise((resolve) => server.once('listening', resolve))
    const { port } = server.address() as { port: number }
    const response = await fetch(`http://127.0.0.1:${port}/api/things/1`)
    assert.deepEqual(await response.json(), { path: '/api/things/1', mountPath: '/api', params: { id: '1' } })
    await new Promise((resolve) => { server.close(resolve); server.closeAllConnections() })
    assert.throws(() => toKoa(shows, { mountPath: 'api' }), /has to start with "\/"/)
  })
})
