// The flows of the package, whole, under each framework that it is mounted into.
import assert from 'node:assert/strict'
import { describe, test } from 'node:test'
import { memory } from '../../../adapters/memory/index.js'
import { blobSource } from '../../../src/content/source.js'
import { content } from '../../../src/content/content.js'
import { ndjsonUpload } from '../../../src/ndjson/upload.js'
import { router } from '../../../src/resources/router.js'
import { createTasks, coreOf } from '../../../src/tasks/tasks.js'
import { defineTask } from '../../../src/tasks/definition/define.js'
import { taskEndpoints } from '../../../src/tasks/http/endpoints.js'
import { jsonSchema } from '../../../src/schema/json-schema.js'
import { HOSTS, type Host, type Setup } from '../kit/hosts.js'
import { ask, Wire } from '../kit/wire.js'
import { deferred, within } from '../../kit/wait.js'

type Context = { user?: unknown }
type Body = Record<string, unknown>

const BYTES = Buffer.from(Array.from({ length: 1000 }, (_, at) => at % 251))
const JSON_TYPE = { 'content-type': 'application/json' }

/** A site with every flow under one host. */
async function site(host: Host, setup: Partial<Setup> = {}) {
  const begun = deferred<AbortSignal>()
  const greet = defineTask({
    name: 'greet',
    input: jsonSchema<{ name: string }>({
      type: 'object',
      required: ['name'],
      properties: { name: { type: 'string' } },
    }),
    run: ({ name }) => ({ message: `Hello ${name}.` }),
  })
  const wait = defineTask({ name: 'wait', run: (_, { signal }) => new Promise((_resolve, reject) => {
    begun.resolve(signal)
    signal.addEventListener('abort', () => { reject(new Error('aborted')) })
  }) })
  const { engine, store, blobs } = memory()
  const tasks = createTasks({ engine, store, definitions: [greet, wait] })
  const endpoints = taskEndpoints<Context>(tasks, {
    statusPath: '/tasks/{id}',
    owner: ({ context }) => (context.user as { name: string }).name,
  })
  const written: object[] = []
  await blobs.put('file', (async function* () { yield BYTES })(), { ttlMs: 600_000 })
  const handler = router<Context>({
    'POST /greet': endpoints.submit(greet),
    'POST /wait': endpoints.submit(wait),
    'GET|HEAD|DELETE /tasks/{id}': endpoints.status,
    'POST /upload': ndjsonUpload<object, Context>({ write: (records) => { written.push(...records) } }),
    'GET|HEAD /file': content(() => blobSource(blobs, 'file')),
  })
  const server = await host.start({ handler, ...setup })
  return {
    ...server,
    tasks,
    written,
    begun: begun.promise,
    end: async () => {
      await server.close()
      await tasks.close({ drainMs: 0 })
    },
  }
}

for (const host of HOSTS) {
  describe(`the handlers under ${host.name}`, () => {
    for (const parse of [false, true]) {
      test(`respond with 202 and a status below the mount path for the application's user${parse ? ', from a body that is parsed already' : ''}`, async (t) => {
        const { port, tasks, end } = await site(host, { parse })
        t.after(end)
        const accepted = await ask(port, 'POST', '/api/greet', {
          body: '{"name":"Ann"}',
          headers: { ...JSON_TYPE, prefer: 'respond-async' },
        })
        assert.equal(accepted.status, 202, accepted.body)
        const { taskId } = JSON.parse(accepted.body) as { taskId: string }
        const location = accepted.headers.location ?? ''
        assert.equal(location, `/api/tasks/${taskId}`)
        assert.equal((await coreOf(tasks).read(taskId))?.owner, 'ann')
        if (parse) return
        const shown = await ask(port, 'GET', location, { headers: { prefer: 'wait=10' } })
        assert.deepEqual((JSON.parse(shown.body) as Body)['result'], { message: 'Hello Ann.' })
        assert.equal(
          (await ask(port, 'GET', location, { headers: { 'if-none-match': shown.headers.etag } })).status,
          304,
        )
        assert.equal((JSON.parse((await ask(port, 'DELETE', location)).body) as Body)['code'], 'task_already_final')
        assert.equal((JSON.parse((await ask(port, 'GET', '/api/tasks/none')).body) as Body)['code'], 'task_not_found')
      })
    }

    test('respond synchronously, and reject an invalid body with a pointer', async (t) => {
      const { port, end } = await site(host)
      t.after(end)
      const done = await ask(port, 'POST', '/api/greet', { body: '{"name":"Ann"}', headers: JSON_TYPE })
      assert.deepEqual([done.status, done.body], [200, '{"message":"Hello Ann."}'])
      const refused = await ask(port, 'POST', '/api/greet', { body: '{}', headers: JSON_TYPE })
      assert.equal(refused.status, 400)
      assert.deepEqual((JSON.parse(refused.body) as Body)['details'], [{ pointer: '/name', message: 'is required' }])
    })

    test('abort a synchronous request when the client disconnects, but not a task', async (t) => {
      const { port, begun, end } = await site(host)
      t.after(end)
      const wire = new Wire(
        port,
        'POST /api/wait HTTP/1.1\r\nhost: x\r\ncontent-type: application/json\r\ncontent-length: 2\r\n\r\n{}',
      )
      const signal = await within(begun, 20_000)
      const aborted = new Promise<void>((resolve) => { signal.addEventListener('abort', () => { resolve() }) })
      wire.socket.destroy()
      await within(aborted, 20_000)
    })

    test('read chunked NDJSON with a bad line', async (t) => {
      const { port, written, end } = await site(host)
      t.after(end)
      const answer = await ask(port, 'POST', '/api/upload', {
        body: '{"id":1}\n{broken\n{"id":2}',
        headers: { 'content-type': 'application/x-ndjson', 'transfer-encoding': 'chunked' },
      })
      assert.deepEqual((JSON.parse(answer.body) as Body)['summary'], { total: 3, succeeded: 2, failed: 1 })
      assert.deepEqual(written, [{ id: 1 }, { id: 2 }])
    })

    test('send ranges', async (t) => {
      const { port, end } = await site(host)
      t.after(end)
      const part = await ask(port, 'GET', '/api/file', { headers: { range: 'bytes=10-12' } })
      assert.deepEqual(
        [part.status, part.headers['content-range'], part.body],
        [206, 'bytes 10-12/1000', BYTES.subarray(10, 13).toString()],
      )
      const beyond = await ask(port, 'GET', '/api/file', { headers: { range: 'bytes=1000-' } })
      assert.deepEqual([beyond.status, beyond.headers['content-range']], [416, 'bytes */1000'])
      const head = await ask(port, 'HEAD', '/api/file')
      assert.deepEqual([head.status, head.headers['content-length'], head.body], [200, '1000', ''])
    })
  })
}
