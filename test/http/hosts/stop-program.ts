// A server of FRAMEWORK that stops as STOP says: `by-hand`, as a user would write it, or with `closeOnSignal`.
import express, { type Request, type Response } from 'express'
import { fastify } from 'fastify'
import Koa from 'koa'
import { createServer, type Server } from 'node:http'
import { createServer as createHttp2Server } from 'node:http2'
import type { AddressInfo } from 'node:net'
import { createTasks, defineTask, router, taskEndpoints } from 'longhaul'
import { fastifyLonghaul } from 'longhaul/fastify'
import { toKoa } from 'longhaul/koa'
import { memory } from 'longhaul/memory'
import { attach, closeOnSignal, toNode } from 'longhaul/node'

const { FRAMEWORK = 'node', STOP = 'closeOnSignal', DRAIN_MS = '300', TIMEOUT_MS } = process.env
const forever = defineTask({ name: 'forever', run: (_input: object, { signal }) => new Promise<void>((resolve) => {
  if (STOP !== 'stubborn') signal.addEventListener('abort', () => { resolve() })
}) })
const storage = memory()
const tasks = createTasks({ ...storage, definitions: [forever] })
const { submit, status } = taskEndpoints(tasks, { statusPath: '/tasks/{id}', owner: 'anyone' })
const handler = router({ 'POST /tasks': submit(forever, { respond: 'always' }), 'GET|HEAD|DELETE /tasks/{id}': status })
const order: string[] = []
const part = (name: string, close: () => unknown): { close(): Promise<void> } => ({
  close: async () => {
    order.push(name)
    await close()
  },
})

async function start(): Promise<{ readonly server: object, readonly net: Server }> {
  if (FRAMEWORK === 'fastify') {
    const app = fastify({ keepAliveTimeout: 60_000, forceCloseConnections: 'idle' })
    app.get('/own', async () => 'own')
    app.register(fastifyLonghaul, { handler })
    await app.listen({ port: 0, host: '127.0.0.1' })
    return { server: app, net: app.server }
  }
  const net = frameworkServer()
  if (FRAMEWORK !== 'http2') net.keepAliveTimeout = 60_000
  await new Promise<void>((resolve) => { net.listen(0, '127.0.0.1', resolve) })
  return { server: net, net }
}

function frameworkServer(): Server {
  if (FRAMEWORK === 'express') {
    const app = express().use(toNode(handler)).get('/own', (_req: Request, res: Response) => { res.send('own') })
    return createServer(app as never)
  }
  if (FRAMEWORK === 'koa') {
    const app = new Koa().use(toKoa(handler)).use((ctx) => { ctx.body = 'own' })
    const listener = app.callback()
    return createServer((req, res) => { void listener(req, res) })
  }
  if (FRAMEWORK === 'http2')
    return createHttp2Server((req, res) => {
      toNode(handler)(req as never, res as never)
    }) as unknown as Server
  const server = createServer((_req, res) => { res.end('own') })
  attach(server, handler)
  return server
}

const { server, net } = await start()
if (STOP === 'by-hand') {
  process.once('SIGTERM', () => {
    net.close()
    void tasks.close({ drainMs: Number(DRAIN_MS) })
  })
} else {
  closeOnSignal({
    server, tasks, store: part('store', () => storage.store.close()), blobs: part('blobs', () => storage.blobs.close()),
    pool: { end: () => { order.push('pool') } },
    client: { quit: () => (STOP === 'hangs' ? new Promise(() => {}) : order.push('client')) },
    afterwards: () => {
      order.push('afterwards')
      console.log(`Closed ${order.join()}`)
      // Something that the application forgot.
      setInterval(() => {}, 1000)
    },
    drainMs: Number(DRAIN_MS), ...TIMEOUT_MS !== undefined && { timeoutMs: Number(TIMEOUT_MS) },
  })
}
if (STOP === 'twice') closeOnSignal({ afterwards: () => { console.log('Closed the other call') } })
console.log(`Ready at http://127.0.0.1:${(net.address() as AddressInfo).port}`)
