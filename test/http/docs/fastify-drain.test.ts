// What docs/guide/deploy.md says of Fastify: tasks are drained in `preClose`.
import assert from 'node:assert/strict'
import { test } from 'node:test'
import { fastify } from 'fastify'
import { createTasks, defineTask, taskEndpoints } from 'longhaul'
import { toFastify } from 'longhaul/fastify'
import { memory } from 'longhaul/memory'
import { deferred } from '../../kit/wait.js'

test('app.close of Fastify ends event streams and lets running tasks finish, if preClose drains the tasks', async () => {
  const gate = deferred()
  const slow = defineTask({
    name: 'slow',
    run: async () => {
      await gate.promise
    },
  })
  const tasks = createTasks({ ...memory(), definitions: [slow] })
  const { submit, status } = taskEndpoints(tasks, { statusPath: '/tasks/{id}', owner: 'anyone' })
  const app = fastify()
  app.addHook('preClose', async () => {
    await tasks.close({ drainMs: 10_000 })
  })
  app.post('/slow', toFastify(submit(slow)))
  app.get('/tasks/:id', toFastify(status))
  const url = await app.listen({ port: 0, host: '127.0.0.1' })

  const accepted = await fetch(`${url}/slow`, {
    method: 'POST',
    headers: { 'content-type': 'application/json', 'prefer': 'respond-async' },
    body: '{}',
  })
  assert.equal(accepted.status, 202)
  const location = accepted.headers.get('location') ?? ''
  await accepted.text()
  const events = await fetch(url + location, { headers: { accept: 'text/event-stream' } })
  assert.equal(events.status, 200)

  const closed = app.close()
  gate.resolve()
  await events.text()
  await closed
  assert.equal((await tasks.get(location.split('/').at(-1) ?? ''))?.status, 'completed')
})
