// Mount paths with parameters: a request for `/\evil.example/…` or `//evil.example/…` never gets a
// Location, a statusUrl or a Link at another origin.
import assert from 'node:assert/strict'
import { createServer, type RequestListener } from 'node:http'
import { connect } from 'node:net'
import { describe, test, type TestContext } from 'node:test'
import { getRequestListener } from '@hono/node-server'
import express from 'express'
import fastify from 'fastify'
import { Hono } from 'hono'
import Koa from 'koa'
import { compose, createTasks, defineTask, router, taskEndpoints, type Handler, type Policy } from 'longhaul'
import { toFastify } from 'longhaul/fastify'
import { toFetch } from 'longhaul/fetch'
import { toKoa } from 'longhaul/koa'
import { memory } from 'longhaul/memory'
import { toNode } from 'longhaul/node'
import { toReference } from '../../../src/http/request.js'
import { listen } from '../../kit/listen.js'

/** The mount path of `/<tenant>/…`, with its parameter as the client sent it. */
const mountOf = (url = '') => /^\/+[^/]*/.exec(url)?.[0] ?? ''
/** What frameworks that know no mount path need: everything up to the last segment is one. */
const mounted: Policy = (request, next) => next(request.with({ mountPath: mountOf(request.path) }))

const hosts: Readonly<Record<string, (handler: Handler) => RequestListener | Promise<RequestListener>>> = {
  'Express, mounted at a parameter': (handler) => express().use('/:tenant', toNode(handler)),
  'Express, with mountPath': (handler) => express().use(toNode(handler, { mountPath: (req) => mountOf(req.url) })),
  'Koa': (handler) => new Koa().use(toKoa(compose(mounted, handler))).callback(),
  'Fastify': async (handler) => {
    const app = fastify()
    app.all('/*', toFastify(compose(mounted, handler)))
    await app.ready()
    return (request, response) => { app.routing(request, response) }
  },
  'Hono': (handler) => {
    const handle = toFetch(handler)
    const app = new Hono()
    app.all('*', (c) => handle(c.req.raw, { mountPath: mountOf(new URL(c.req.url).pathname) }))
    return getRequestListener(app.fetch)
  },
}

/** Sends a request target as it is, which `fetch` would normalise. */
async function raw(
  port: number,
  method: string,
  target: string,
  body = '',
): Promise<{ readonly head: string; readonly body: string }> {
  const socket = connect(port, '127.0.0.1')
  const type = body === '' ? '' : 'Content-Type: application/json\r\n'
  socket.end(
    `${method} ${target} HTTP/1.1\r\nHost: api.example\r\nPrefer: respond-async\r\n${type}Content-Length: ${body.length}\r\nConnection: close\r\n\r\n${body}`,
  )
  let text = ''
  for await (const piece of socket) text += String(piece)
  const [head = '', ...rest] = text.split('\r\n\r\n')
  return { head, body: rest.join('\r\n\r\n') }
}

async function start(t: TestContext, host: (typeof hosts)[string]) {
  const report = defineTask({ name: 'report', run: () => ({ message: 'Here.' }) })
  const tasks = createTasks({ ...memory(), definitions: [report] })
  const endpoints = taskEndpoints(tasks, { statusPath: '/tasks/{id}', owner: 'anyone' })
  const running = await listen(
    createServer(
      await host(router({ 'POST /reports': endpoints.submit(report), 'GET /tasks/{id}': endpoints.status })),
    ),
  )
  t.after(async () => {
    await running.close()
    await tasks.close()
  })
  return running.port
}

const origin = 'https://api.example'

for (const [name, host] of Object.entries(hosts)) {
  describe(name, () => {
    for (const target of [
      '/\\evil.example/reports', '//evil.example/reports', '/\\\\evil.example/reports',
      '/\\/evil.example/reports', '/%5Cevil.example/reports', '/acme/reports',
    ]) {
      test(`POST ${target}: each reference in the response leads to this origin`, async (t) => {
        const { head, body } = await raw(await start(t, host), 'POST', target, '{}')
        const references = [...head.matchAll(/^(?:content-)?location: (.*)$/gim)].map(([, value]) => value as string)
        if (target === '/acme/reports') assert.match(head, /^HTTP\/1\.1 202/)
        if (/^HTTP\/1\.1 202/.test(head)) assert.ok(references.length >= 2, head)
        if (body.startsWith('{')) references.push((JSON.parse(body) as { statusUrl?: string }).statusUrl ?? '/')
        for (const reference of references) assert.equal(new URL(reference, origin).origin, origin, reference)
      })
    }
  })
}

test('a reference to any path leads to this path at the same origin', () => {
  for (const [path, reference] of [
    ['/a/b', '/a/b'],
    ['//a/b', '/.//a/b'],
    ['/\\a', '/%5Ca'],
    ['\\\\a', '%5C%5Ca'],
    ['', ''],
    ['/', '/'],
    ['///a', '/.///a'],
    ['/a//b', '/a//b'],
  ] as const) {
    assert.equal(toReference(path), reference)
  }
  assert.equal(new URL(toReference('//evil.example/x'), origin).pathname, '//evil.example/x')
})
