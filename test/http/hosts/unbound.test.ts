import assert from 'node:assert/strict'
import { test } from 'node:test'
import express from 'express'
import { fastify } from 'fastify'
import { compose, createTasks, defineTask, router, taskEndpoints, type Handler } from '../../../src/index.js'
import { memory } from '../../../adapters/memory/index.js'

const report = defineTask({ name: 'report', run: () => ({ message: 'Here.' }) })
const ADVICE = /mounted without a binding.*toNode\(handler\) in Express.*toFastify\(handler\) in Fastify/

/** Handlers that an application may mount by mistake without a binding. */
function handlers(): Readonly<Record<string, Handler>> {
  const tasks = createTasks({ ...memory(), definitions: [report] })
  const { submit, status } = taskEndpoints(tasks, { statusPath: '/tasks/{id}', owner: 'anyone' })
  return {
    status,
    submit: submit(report),
    composed: compose((request, next) => next(request), status),
    routed: router({ 'GET /tasks/{id}': status }),
  }
}

for (const [name, handler] of Object.entries(handlers())) {
  test(
    `an Express handler without toNode fails with a message that says so: ${name}`,
    { timeout: 10_000 },
    async (t) => {
      const app = express()
      const seen: unknown[] = []
      app.all('/tasks/:id', handler)
      app.use(((error, _req, res, _next) => {
        seen.push(error)
        res.sendStatus(500)
      }) as express.ErrorRequestHandler)
      const server = app.listen(0)
      t.after(() => server.close())
      await new Promise((resolve) => server.once('listening', resolve))
      const { port } = server.address() as { port: number }
      assert.equal((await fetch(`http://127.0.0.1:${port}/tasks/a`)).status, 500)
      assert.match(String(seen[0]), ADVICE)
    },
  )

  test(
    `a Fastify handler without toFastify fails with a message that says so: ${name}`,
    { timeout: 10_000 },
    async () => {
      const app = fastify()
      app.get('/tasks/:id', handler as never)
      const answer = await app.inject('/tasks/a')
      assert.equal(answer.statusCode, 500)
      assert.match(answer.json<{ message: string }>().message, ADVICE)
      await app.close()
    },
  )
}
