import assert from 'node:assert/strict'
import { createServer, type RequestListener } from 'node:http'
import { afterEach, describe, test, type TestContext } from 'node:test'
import { setImmediate as turn } from 'node:timers/promises'
import { getRequestListener } from '@hono/node-server'
import express, { type ErrorRequestHandler } from 'express'
import { fastify } from 'fastify'
import { Hono } from 'hono'
import Koa from 'koa'
import { createTasks, defineTask, httpError, reportErrorsTo, type Handler, type Policy } from 'longhaul'
import type { ErrorPlace } from '../../../src/http/boundary.js'
import { fastifyLonghaul } from 'longhaul/fastify'
import { toFetch } from 'longhaul/fetch'
import { toKoa } from 'longhaul/koa'
import { memory } from 'longhaul/memory'
import { toMiddleware, toNode } from 'longhaul/node'
import { testClock } from 'longhaul/testing'
import { listen } from '../../kit/listen.js'

const fault = new Error('password=123')
const broken: Handler = () => { throw fault }

let stop: (() => void) | undefined
afterEach(() => { stop?.() })

/** Listens as an application would, once for all handlers. */
function report(): [unknown, ErrorPlace][] {
  const heard: [unknown, ErrorPlace][] = []
  stop = reportErrorsTo((error, place) => { heard.push([error, place]) })
  return heard
}

async function statusOf(t: TestContext, listener: RequestListener): Promise<number> {
  const { url, close } = await listen(createServer(listener))
  t.after(close)
  const answer = await fetch(`${url}/x`)
  assert.doesNotMatch(await answer.text(), /password/)
  return answer.status
}

function warnings(t: TestContext): string[] {
  const seen: string[] = []
  const note = ({ name, message }: Error): void => { if (name === 'LonghaulError') seen.push(message) }
  process.on('warning', note)
  t.after(() => process.off('warning', note))
  return seen
}

describe('reportErrorsTo receives every masked error of all handlers', () => {
  const hosts: Record<string, (answered: string[]) => RequestListener | Promise<RequestListener>> = {
    'express, whose own error middleware must not answer as well': (answered) => {
      const app = express()
      app.use(toNode(broken))
      app.use(((_error, _req, res, _next) => { answered.push('host'); res.end() }) satisfies ErrorRequestHandler)
      return app
    },
    'express, policies in front of its own handlers': (answered) => {
      const app = express()
      const policy: Policy = () => { throw fault }
      app.use(toMiddleware(policy))
      app.use((_req, res) => { answered.push('host'); res.end() })
      return app
    },
    'fastify': async () => {
      const app = fastify()
      app.register(fastifyLonghaul, { handler: broken })
      await app.ready()
      return (req, res) => { app.routing(req, res) }
    },
    'koa, in place of the error event of the app': (answered) => {
      const app = new Koa()
      app.on('error', () => answered.push('event'))
      return app.use(toKoa(broken)).callback()
    },
    'hono': () => {
      const handle = toFetch(broken)
      return getRequestListener(new Hono().all('*', (c) => handle(c.req.raw)).fetch)
    },
  }
  for (const [name, host] of Object.entries(hosts)) {
    test(name, async (t) => {
      const heard = report()
      const seen = warnings(t)
      const answered: string[] = []
      assert.equal(await statusOf(t, await host(answered)), 500)
      assert.deepEqual(
        heard.map(([error, { request, task }]) => [error, request?.path, task]),
        [[fault, '/x', undefined]],
      )
      assert.deepEqual(answered, [])
      await turn()
      assert.deepEqual(seen, [])
    })
  }

  test('tasks, with the attempt, even beside an onError of their own', async (t) => {
    for (const own of [[], ['own', 'own']]) {
      const heard = report()
      const seen = warnings(t)
      const called: string[] = []
      const clock = testClock()
      const work = defineTask({ name: 'work', attempts: 2, run: () => { throw fault } })
      const onError = own.length > 0 ? { onError: () => { called.push('own') } } : {}
      const tasks = createTasks({ ...memory({ clock }), definitions: [work], ...onError })
      const { taskId } = await tasks.submit(work, {})
      await clock.advance(60_000)
      await tasks.close()
      assert.deepEqual(
        heard.map(([error, { task }]) => [error, task]),
        [1, 2].map((attempt) => [fault, { taskId, name: 'work', attempt }]),
      )
      assert.deepEqual(called, own)
      await turn()
      assert.deepEqual(seen, [])
      stop?.()
    }
  })
})

test('errors that are meant for clients are not reported, and a removed listener gets nothing', async (t) => {
  const heard = report()
  assert.equal(await statusOf(t, toNode(() => { throw httpError('forbidden') })), 403)
  stop?.()
  const seen = warnings(t)
  assert.equal(await statusOf(t, toNode(broken)), 500)
  assert.deepEqual(heard, [])
  await turn()
  assert.equal(seen.length, 1)
})

test('a listener that throws does not change a response, and causes a warning', async (t) => {
  const seen = warnings(t)
  stop = reportErrorsTo(() => { throw new Error('Sentry is away') })
  assert.equal(await statusOf(t, toNode(broken)), 500)
  await turn()
  assert.match(seen.join(), /Sentry is away/)
  assert.throws(() => reportErrorsTo('x' as never), TypeError)
})
