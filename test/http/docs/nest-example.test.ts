import assert from 'node:assert/strict'
import { test } from 'node:test'
import { ServerProcess, stopAfterwards } from '../kit/process.js'
import { Client } from '../kit/reference.js'
import { program } from '../../servers/program.js'

stopAfterwards()

const prefer = 'respond-async'
const ann = { 'x-demo-user': 'ann' }

test('NestJS: the guard decides who the owner is, and Nest drains the tasks when it stops', async () => {
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

  server.child.kill('SIGTERM')
  await server.exited
  assert.equal(server.err, '')
})
