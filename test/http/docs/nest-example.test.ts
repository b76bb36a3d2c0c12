import assert from 'node:assert/strict'
import { test } from 'node:test'
import { ServerProcess, stopAfterwards } from '../kit/process.js'
import { Client } from '../kit/reference.js'
import { program } from '../../servers/program.js'

stopAfterwards()

const prefer = 'respond-async'
const ann = { 'x-demo-user': 'ann' }

test('the guard of NestJS decides who the owner is, and Nest drains the tasks when it stops', async () => {
  const server = new ServerProcess(process.execPath, program('examples/nest/main.ts'), { PORT: '0' })
  const client = new Client(await server.url())

  const begun = await client.ask('POST', '/api/reports', { body: { year: 2025 }, headers: { ...ann, prefer } })
  assert.equal(begun.status, 202)
  const path = begun.headers.get('location') ?? ''
  assert.equal(path, `/api/tasks/${begun.json.taskId}`)
  assert.equal((await client.ask('GET', path, { headers: ann })).json.status, 'processing')
  assert.equal((await client.ask('GET', path, { headers: { 'x-demo-user': 'bob' } })).json.code, 'task_not_found')
  assert.equal((await client.ask('GET', path)).status, 401)

  const ended = await client.ask('GET', path, { headers: { ...ann, prefer: 'wait=20' } })
  assert.equal(ended.json.status, 'completed')
  assert.equal(ended.json.result.message, 'The report of 2025 is ready.')

  const refused = await client.ask('POST', '/api/reports', { body: {}, headers: ann })
  assert.equal(refused.status, 400)
  assert.deepEqual(refused.json.details, [{ pointer: '/year', message: 'is required' }])

  const line = '{"sku":"a"}\n'
  const upload = await client.ask('POST', '/api/orders', {
    headers: { ...ann, 'content-type': 'application/x-ndjson', 'upload-complete': '?0' },
  })
  assert.equal(upload.status, 201)
  const place = upload.headers.get('location') ?? ''
  const part = { 'content-type': 'application/partial-upload', 'upload-offset': '0', 'upload-complete': '?1' }
  assert.equal((await client.ask('PATCH', place, { body: line, headers: part })).status, 401)
  assert.equal(
    (await client.ask('PATCH', place, { body: line, headers: { ...part, 'x-demo-user': 'bob' } })).status,
    404,
  )
  const imported = await client.ask('PATCH', place, { body: line, headers: { ...part, ...ann } })
  assert.deepEqual([imported.status, imported.json.summary], [200, { total: 1, succeeded: 1, failed: 0 }])

  const listed = await client.ask('GET', '/api/tasks', { headers: ann })
  assert.deepEqual(listed.json.items.map(({ taskId }: { taskId: string }) => taskId), [begun.json.taskId])
  assert.equal((await client.ask('PUT', path, { headers: ann })).headers.get('allow'), 'GET, HEAD, DELETE, OPTIONS')
  assert.equal((await client.ask('GET', '/api/nothing', { headers: ann })).json.message, 'Cannot GET /api/nothing')

  server.child.kill('SIGTERM')
  await server.exited
  assert.equal(server.err, '')
})
