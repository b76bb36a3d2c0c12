import assert from 'node:assert/strict'
import { describe, test } from 'node:test'
import { ServerProcess, stopAfterwards } from '../kit/process.js'
import { Client } from '../kit/reference.js'

stopAfterwards()

describe('the examples run as they stand', () => {
  for (const [name, prefix] of [
    ['express', '/api'], ['express4', '/api'], ['connect', '/api'], ['fastify', ''], ['koa', ''], ['hono', ''],
  ] as const) {
    test(name, async () => {
      const server = new ServerProcess(process.execPath, ['--import', 'tsx', `examples/${name}/main.ts`], { PORT: '0' })
      const client = new Client(await server.url())

      const begun = await client.ask('POST', `${prefix}/reports`, { body: { year: 2025 }, headers: { prefer: 'respond-async' } })
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
