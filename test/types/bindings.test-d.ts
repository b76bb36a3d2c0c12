// Types of the bindings, compiled by `npm run types`: a handler that needs a context of the host's goes into
// every one of them.
import { createServer } from 'node:http'
import connect from 'connect'
import { expectTypeOf } from 'expect-type'
import express from 'express'
import express4 from 'express4'
import { fastify, type FastifyRequest } from 'fastify'
import { Hono } from 'hono'
import Koa, { type ParameterizedContext } from 'koa'
import type { Handler, Policy } from 'longhaul'
import { fastifyLonghaul, toFastify } from 'longhaul/fastify'
import { toFetch, type FetchHandler } from 'longhaul/fetch'
import { toKoa } from 'longhaul/koa'
import { attach, toMiddleware, toNode, type NodeHandler } from 'longhaul/node'

interface Context { readonly tenant: string }
declare const handler: Handler<Context>
declare const policy: Policy<Context>
declare const plain: Handler
const context = (): Context => ({ tenant: 'acme' })
const wrong = (): { tenant: number } => ({ tenant: 1 })

/** Fastify: the plugin (15.23) and a route. */
export function inFastify(): void {
  const app = fastify({ logger: true })
  app.register(fastifyLonghaul, { prefix: '/api', handler })
  app.register(fastifyLonghaul, { prefix: '/api', handler, context })
  app.register(fastifyLonghaul, { prefix: '/api', handler: plain })
  app.register(fastifyLonghaul<Context>, { prefix: '/api', handler, context })
  app.register(fastifyLonghaul, { prefix: '/api', handler, onError: (error) => { console.error(error) } })
  app.post('/reports', toFastify(handler, { context }))
  app.post('/reports', toFastify(plain))
  app.post('/reports', toFastify(handler, { context: (request: FastifyRequest) => ({ tenant: request.id }) }))
  // @ts-expect-error the handler is required
  app.register(fastifyLonghaul, { prefix: '/api' })
  // @ts-expect-error no handler at all
  app.register(fastifyLonghaul, { prefix: '/api', handler: 'handler' })
  // @ts-expect-error another context than the handler reads
  app.register(fastifyLonghaul<Context>, { prefix: '/api', handler, context: wrong })
  // @ts-expect-error another context than the handler reads
  toFastify(handler, { context: wrong })
}

/** Koa, with and without types of the app's own. */
export function inKoa(): void {
  new Koa().use(toKoa(handler, { context }))
  new Koa<{ user: string }, { log: string }>().use(
    toKoa(handler, { context: (ctx: ParameterizedContext) => ({ tenant: ctx.host }) }),
  )
  new Koa().use(toKoa(plain))
  // @ts-expect-error another context than the handler reads
  toKoa(handler, { context: wrong })
}

/** Node, Express and Connect. */
export function inNode(): void {
  expectTypeOf(toNode(handler, { context })).toEqualTypeOf<NodeHandler<Context>>()
  expectTypeOf(toMiddleware(policy, { context })).toEqualTypeOf<NodeHandler<Context>>()
  createServer(toNode(handler, { context }))
  attach(createServer(), handler, { context })
  for (const app of [express(), express4()]) {
    app.use(toMiddleware(policy, { context }))
    app.use('/api', toNode(handler, { context }))
    app.post('/reports', toNode(handler, { context }))
  }
  connect().use('/api', toNode(handler, { context }))
  // @ts-expect-error another context than the handler reads
  toNode(handler, { context: wrong })
  // @ts-expect-error another context than the policy reads
  toMiddleware(policy, { context: wrong })
}

/** Fetch, and Hono. */
export function inFetch(): void {
  const handle = toFetch(handler, { context })
  expectTypeOf(handle).toEqualTypeOf<FetchHandler<Context>>()
  new Hono().all('/api/*', (c) => handle(c.req.raw, { mountPath: '/api', context: { tenant: 'acme' } }))
  // @ts-expect-error another context than the handler reads
  void handle(new Request('http://test'), { context: { tenant: 1 } })
  // @ts-expect-error another context than the handler reads
  toFetch(handler, { context: wrong })
}
