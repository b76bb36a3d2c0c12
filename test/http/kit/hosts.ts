// Every server that the bindings are tested under, behind one shape.
import connect from 'connect'
import express5, { type Express, type Request as ExpressRequest } from 'express'
import fastify from 'fastify'
import { serve } from '@hono/node-server'
import { Hono } from 'hono'
import Koa from 'koa'
import { createServer, type IncomingMessage, type RequestListener, type Server, type ServerResponse } from 'node:http'
import { createRequire } from 'node:module'
import type { Handler, HttpRequest } from '../../../src/http/exchange.js'
import { toFetch } from '../../../adapters/fetch/index.js'
import { fastifyLonghaul, toFastify } from '../../../adapters/fastify/index.js'
import { toKoa } from '../../../adapters/koa/index.js'
import { toNode } from '../../../adapters/node/index.js'
import { listen, listening, type Listening } from '../../kit/listen.js'

export interface Setup {
  readonly handler: Handler<{ user?: unknown }>
  readonly onError?: (error: unknown, request: HttpRequest) => void
  /** The host's own JSON parser runs first. */
  readonly parse?: boolean
  /** The host answers `host` for what the handler declines. */
  readonly fallback?: boolean
}

type Context = { user?: unknown }

/** A host with the handler mounted at `/api` and the user `ann` known. */
export interface Host {
  readonly name: string
  /** It runs middleware in front of the handler that sets headers on the response. */
  readonly middleware: boolean
  start(setup: Setup): Promise<Listening>
}

/** Runs `use` beside a server with this listener, and closes the server afterwards. */
export async function serving(
  listener: RequestListener, use: (port: number) => Promise<void>,
): Promise<void> {
  const running = await listen(createServer(listener))
  try {
    await use(running.port)
  } finally {
    await running.close()
  }
}

const ANN = { name: 'ann' }

function options({ onError }: Setup) {
  return onError === undefined ? {} : { onError }
}

async function readAll(req: IncomingMessage): Promise<unknown> {
  const chunks: Buffer[] = []
  for await (const chunk of req) chunks.push(chunk as Buffer)
  return chunks.length === 0 ? undefined : JSON.parse(Buffer.concat(chunks).toString())
}

const node: Host = {
  name: 'node:http',
  middleware: false,
  start(setup) {
    const handle = toNode(setup.handler, { ...options(setup), mountPath: '/api' })
    return listen(createServer(async (req, res) => {
      const call = {
        context: { user: ANN },
        ...setup.parse && { body: await readAll(req) },
        ...setup.fallback && { next: () => res.end('host') }
      }
      handle(req, res, call)
    }))
  }
}

function userAndHeaders(req: IncomingMessage & { user?: unknown }, res: ServerResponse, next: () => void): void {
  req.user = ANN
  res.setHeader('X-Host', 'here')
  res.setHeader('Vary', 'Origin')
  res.setHeader('Set-Cookie', 'host=1')
  next()
}

function express(name: string, make: typeof express5): Host {
  return {
    name,
    middleware: true,
    start(setup) {
      const app: Express = make()
      if (setup.parse) app.use(make.json())
      app.use('/api', userAndHeaders, toNode(setup.handler, options(setup)))
      if (setup.fallback) app.use((_req: ExpressRequest, res: ServerResponse) => { res.end('host') })
      return listen(createServer(app))
    }
  }
}

const connectHost: Host = {
  name: 'Connect',
  middleware: true,
  start(setup) {
    const app = connect()
    if (setup.parse) {
      app.use((req: IncomingMessage & { body?: unknown }, _res, next) => {
        void readAll(req).then((body) => { req.body = body }).then(() => next(), next)
      })
    }
    app.use('/api', userAndHeaders)
    app.use('/api', toNode(setup.handler, options(setup)))
    if (setup.fallback) app.use((_req, res) => { res.end('host') })
    return listen(createServer(app))
  }
}

const koa: Host = {
  name: 'Koa, raw',
  middleware: false,
  start(setup) {
    const app = new Koa()
    const handle = toNode(setup.handler, { ...options(setup), mountPath: '/api' })
    app.use(async (ctx, next) => {
      if (setup.parse) (ctx.request as { body?: unknown }).body = await readAll(ctx.req)
      await next()
    })
    app.use((ctx) => {
      ctx.respond = false
      handle(ctx.req, ctx.res, {
        context: { user: ANN },
        body: (ctx.request as { body?: unknown }).body,
        ...setup.fallback && { next: () => { ctx.res.statusCode = 200; ctx.res.end('host') } }
      })
    })
    app.on('error', () => {})
    const listener = app.callback()
    return listen(createServer((req, res) => { void listener(req, res) }))
  }
}

const fastifyHost: Host = {
  name: 'Fastify, raw',
  middleware: false,
  async start(setup) {
    const app = fastify({ forceCloseConnections: true })
    const handle = toNode(setup.handler, { ...options(setup), mountPath: '/api' })
    if (!setup.parse) {
      app.removeAllContentTypeParsers()
      app.addContentTypeParser('*', (_request, _payload, done) => done(null))
    }
    app.all('/api/*', (request, reply) => {
      reply.hijack()
      handle(request.raw, reply.raw, {
        context: { user: ANN },
        body: request.body,
        params: request.params as Record<string, string>,
        ...setup.fallback && { next: () => reply.raw.end('host') }
      })
    })
    await app.listen({ port: 0, host: '127.0.0.1' })
    return { ...listening(app.server), close: () => app.close() }
  }
}

const koaMiddleware: Host = {
  name: 'Koa, middleware',
  middleware: true,
  start(setup) {
    const app = new Koa()
    app.use(async (ctx, next) => {
      if (setup.parse) (ctx.request as { body?: unknown }).body = await readAll(ctx.req)
      ctx.state['user'] = ANN
      ctx.set({ 'X-Host': 'here', 'Vary': 'Origin', 'Set-Cookie': 'host=1' })
      await next()
    })
    app.use(mount('/api', toKoa(setup.handler, options(setup))))
    if (setup.fallback) app.use((ctx) => { ctx.body = 'host' })
    app.on('error', () => {})
    const listener = app.callback()
    return listen(createServer((req, res) => { void listener(req, res) }))
  }
}

/** What koa-mount does. */
function mount(prefix: string, middleware: Koa.Middleware): Koa.Middleware {
  return async (ctx, next) => {
    const before = ctx.path
    ctx.path = before.slice(prefix.length) || '/'
    await middleware(ctx, async () => {
      ctx.path = before
      await next()
    })
  }
}

const fastifyPlugin: Host = {
  name: 'Fastify, plugin',
  middleware: true,
  async start(setup) {
    const app = fastify({ forceCloseConnections: true })
    app.addHook('onRequest', (request, reply, done) => {
      Object.assign(request, { user: ANN })
      reply.headers({ 'x-host': 'here', 'vary': 'Origin', 'set-cookie': 'host=1' })
      done()
    })
    if (setup.parse) {
      app.register((scope, _options, done) => {
        scope.route({ method: app.supportedMethods, url: '/*', exposeHeadRoute: false, handler: parsedRoute(setup) })
        done()
      }, { prefix: '/api' })
    }
    if (!setup.parse)
      app.register(fastifyLonghaul<Context>, { prefix: '/api', handler: setup.handler, ...options(setup) })
    if (setup.fallback) app.setNotFoundHandler((_request, reply) => reply.code(200).send('host'))
    await app.listen({ port: 0, host: '127.0.0.1' })
    return { ...listening(app.server), close: () => app.close() }
  }
}

/** A route of Fastify's own, with its own parser of JSON. */
function parsedRoute(setup: Setup) {
  return toFastify(setup.handler, options(setup))
}

const hono: Host = {
  name: 'Hono, fetch',
  middleware: false,
  start(setup) {
    const app = new Hono()
    const handle = toFetch(setup.handler, { ...options(setup), mountPath: '/api' })
    app.all('/api/*', async (c) => handle(c.req.raw, {
      context: { user: ANN },
      ...setup.parse && { body: await c.req.json() as unknown },
      ...setup.fallback && { next: () => c.text('host') }
    }))
    return new Promise((resolve) => {
      const server = serve({ fetch: app.fetch, port: 0, hostname: '127.0.0.1' }, () => {
        resolve(listening(server))
      }) as Server
    })
  }
}

const express4 = createRequire(import.meta.url)('express4') as typeof express5

export const HOSTS: readonly Host[] = [
  node,
  express('Express 4', express4),
  express('Express 5', express5),
  connectHost,
  koa,
  koaMiddleware,
  fastifyHost,
  fastifyPlugin,
  hono,
]
