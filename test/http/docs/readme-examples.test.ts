import assert from 'node:assert/strict'
import { describe, test } from 'node:test'
import { ServerProcess, stopAfterwards } from '../kit/process.js'
import { Client } from '../kit/reference.js'
import { program } from '../../servers/program.js'

stopAfterwards()

describe('the examples run as they stand', () => {
  for (const [name, prefix] of [
    ['express', '/api'], ['express4', '/api'], ['connect', '/api'], ['fastify', ''], ['koa', ''], ['hono', ''],
  ] as const) {
    test(name, async () => {
      const server = new ServerProcess(process.execPath, program(`examples/${name}/main.ts`), { PORT: '0' })
      const client = new Client(await server.url())

      const begun = await client.ask('POST', `${prefix}/reports`, {
        body: { year: 2025 },
        headers: { prefer: 'respond-async' },
      })
      assert.equal(begun.status, 202)
      const path = begun.headers.get('location') ?? ''
      assert.equal(path, `${prefix}/tasks/${begun.json.taskId}`)
      assert.equal((await client.ask('GET', path)).json.status, 'processing')
      assert.equal((await client.ask('HEAD', path)).status, 200)
      assert.equal((await client.ask('DELETE', path)).json.status, 'cancelled')
      assert.equal((await client.ask('GET', `${prefix}/tasks/nope`)).json.code, 'task_not_found')

      const refused = await client.ask('POST', `${prefix}/reports`, { body: {} })
      assert.equal(refused.status, 400)
      assert.deepEqual(refused.json.details, [{ pointer: '/year', message: 'is required' }])

      server.child.kill('SIGTERM')
      await server.exited
      assert.equal(server.err, '')
    })
  }
})

describe('the examples of Express and Fastify', () => {
  for (const [name, prefix] of [['express', '/api'], ['fastify', '']] as const) {
    test(`${name}: only its owner lists, retries and deletes a task, and downloads its file`, async () => {
      const server = new ServerProcess(process.execPath, program(`examples/${name}/main.ts`), { PORT: '0' })
      const client = new Client(await server.url())
      const bob = { 'x-user': 'bob' }

      const { json: { taskId } } = await client.ask('POST', `${prefix}/sales`, { body: { year: 2025 } })
      const path = `${prefix}/tasks/${taskId}`
      const { json: done } = await client.ask('GET', path, { headers: { prefer: 'wait=10' } })
      assert.deepEqual([done.status, done.files[0].url], ['completed', `${path}/files/sales.csv`])
      assert.match((await client.ask('GET', done.files[0].url)).text, /^month,total\n2025-01,100\n/)
      assert.equal((await client.ask('GET', done.files[0].url, { headers: bob })).status, 404)

      const {
        json: { taskId: slow },
      } = await client.ask('POST', `${prefix}/reports`, { body: { year: 2025 }, headers: { prefer: 'respond-async' } })
      await client.ask('DELETE', `${prefix}/tasks/${slow}`)
      const list = await client.ask('GET', `${prefix}/tasks?status=cancelled`)
      assert.deepEqual(list.json.items.map((item: { taskId: string }) => item.taskId), [slow])
      assert.deepEqual((await client.ask('GET', `${prefix}/tasks`, { headers: bob })).json, { items: [] })
      assert.equal((await client.ask('POST', `${prefix}/tasks/${slow}/retry`, { headers: bob })).status, 404)
      const retried = await client.ask('POST', `${prefix}/tasks/${slow}/retry`)
      assert.deepEqual([retried.status, retried.json.taskId, retried.json.status], [202, slow, 'processing'])

      assert.equal((await client.ask('DELETE', path, { headers: bob })).status, 404)
      assert.equal((await client.forget(path)).status, 204)
      assert.equal((await client.ask('GET', path)).status, 404)

      server.child.kill('SIGTERM')
      await server.exited
      assert.equal(server.err, '')
    })
  }
})
