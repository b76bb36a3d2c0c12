// A server of a long list with little memory, as a child process: it tells its port, and on each
// message how much it has used.
import { createServer } from 'node:http'
import type { AddressInfo } from 'node:net'
import express from 'express'
import fastify from 'fastify'
import Koa from 'koa'
import { createTasks, defineTask, router, taskEndpoints } from 'longhaul'
import { fastifyLonghaul } from 'longhaul/fastify'
import { toKoa } from 'longhaul/koa'
import { memory } from 'longhaul/memory'
import { attach, toNode } from 'longhaul/node'

const report = defineTask({ name: 'report', run: () => 'x'.repeat(20_000) })
const tasks = createTasks({ ...memory(), definitions: [report] })
for (let at = 0; at < 100; at++) await (await tasks.submit(report, {}, { owner: 'ann' })).wait({ timeoutMs: 10_000 })
let lists = 0
const endpoints = taskEndpoints(tasks, { statusPath: '/tasks/{id}', owner: () => { lists++; return 'ann' } })
const handler = router({ 'GET /tasks': endpoints.list })

const server = createServer()
switch (process.env['LONGHAUL_TEST_HOST']) {
  case 'Express':
    server.on('request', express().use(toNode(handler)) as never)
    break
  case 'Koa':
    server.on('request', Object.assign(new Koa(), { silent: true }).use(toKoa(handler)).callback() as never)
    break
  case 'Fastify': {
    const app = fastify({ serverFactory: (listener) => server.on('request', listener) })
    app.register(fastifyLonghaul, { handler })
    await app.ready()
    break
  }
  default:
    attach(server, handler)
}
server.listen(0, '127.0.0.1', () => { process.send?.({ port: (server.address() as AddressInfo).port }) })
process.on('message', () => {
  process.send?.({ maxRss: process.resourceUsage().maxRSS * 1024, rss: process.memoryUsage().rss, written: lists })
})
process.on('disconnect', () => process.exit())
