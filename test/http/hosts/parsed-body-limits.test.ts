import assert from 'node:assert/strict'
import { createServer } from 'node:http'
import { test } from 'node:test'
import { gzipSync } from 'node:zlib'
import express from 'express'
import { createTasks, defineTask, taskEndpoints } from 'longhaul'
import { memory } from 'longhaul/memory'
import { toMiddleware } from 'longhaul/node'
import { listen } from '../../kit/listen.js'

test('maxInputBytes bounds chunked and coded bodies behind express.json()', async (t) => {
  const work = defineTask({ name: 'work', run: () => ({ message: 'done' }) })
  const engine = memory()
  const tasks = createTasks({ ...engine, definitions: [work], maxInputBytes: 1000 })
  const { submit } = taskEndpoints(tasks, { statusPath: '/tasks/{id}', owner: 'anyone' })
  const app = express().use(express.json()).use('/work', toMiddleware(submit(work)))
  const server = createServer(app)
  const { url, close } = await listen(server)
  t.after(async () => {
    await close()
    await tasks.close({ drainMs: 0 })
    await engine.store.close()
  })
  const post = async (body: string | Uint8Array | ReadableStream, headers: Record<string, string> = {}) => {
    const response = await fetch(`${url}/work`, {
      method: 'POST', body, headers: { 'content-type': 'application/json', ...headers }, duplex: 'half',
    })
    return [response.status, (await response.json() as { code?: string }).code]
  }
  const chunked = (text: string) => new ReadableStream({ start: (controller) => {
    controller.enqueue(Buffer.from(text))
    controller.close()
  } })
  const large = JSON.stringify({ list: Array.from({ length: 16_000 }, () => ({})) })
  const small = JSON.stringify({ text: 'x'.repeat(900) })
  assert.deepEqual(await post(large), [413, 'body_too_large'])
  assert.deepEqual(await post(chunked(large)), [413, 'body_too_large'])
  assert.deepEqual(await post(gzipSync(large), { 'content-encoding': 'gzip' }), [413, 'body_too_large'])
  assert.deepEqual(await post(chunked(small)), [200, undefined])
  assert.deepEqual(await post(gzipSync(small), { 'content-encoding': 'gzip' }), [200, undefined])
})
