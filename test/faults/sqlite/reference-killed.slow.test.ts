// DATABASE=sqlite:./data.db npm start, kill -9, and again.
import assert from 'node:assert/strict'
import { test } from 'node:test'
import { startProcess, stopAfterwards, type ServerProcess } from '../../http/kit/process.js'
import { Client, TOKENS, type Answer } from '../../http/kit/reference.js'
import { eventually } from '../../kit/wait.js'
import { sqliteUrl } from '../../servers/sqlite.js'

stopAfterwards()
const DATABASE = await sqliteUrl()
/** Node 22 and 24 warn that their SQLite is new. */
const QUIET = { NODE_OPTIONS: '--disable-warning=ExperimentalWarning' }
const CREATE = { 'content-type': 'application/x-ndjson', 'upload-complete': '?0' }

async function start(): Promise<{ readonly server: ServerProcess, readonly client: Client }> {
  const server = startProcess({ DATABASE, AUTH_TOKENS: TOKENS, ...QUIET })
  return { server, client: new Client(await server.url()) }
}

const pathOf = ({ headers }: Answer): string => headers.get('location') ?? ''

function append(client: Client, path: string, at: number, body: string, complete: string): Promise<Answer> {
  const headers = {
    'content-type': 'application/partial-upload',
    'upload-offset': String(at),
    'upload-complete': complete,
  }
  return client.ask('PATCH', path, { body, headers })
}

test('the reference server on SQLite keeps tasks, files, users and uploads after a kill -9', async () => {
  const { server, client } = await start()
  const user = await client.ask('POST', '/api/users', { body: { email: 'kept@example.com', name: 'Kept' } })
  const key = { headers: { 'idempotency-key': '"finished"' } }
  const finished = pathOf(await client.submit('wait', { ms: 0 }, key))
  const exported = pathOf(await client.submit('export-users', { role: 'admin' }))
  for (const path of [finished, exported]) assert.equal((await client.ended(path)).json.status, 'completed')
  const [file] = (await client.ask('GET', exported)).json.files as [{ url: string }]
  const { text } = await client.ask('GET', file.url)
  const upload = pathOf(await client.ask('POST', '/upload-ndjson', { body: '', headers: CREATE }))
  assert.equal((await append(client, upload, 0, '{"id":11,"na', '?0')).status, 204)
  const running = pathOf(await client.submit('wait', { ms: 1000 }))
  await eventually(async () => (await client.ask('GET', running)).json.status === 'processing', 30_000, 'the task runs')
  server.child.kill('SIGKILL')
  await server.exited

  const { server: next, client: again } = await start()
  assert.equal((await again.ask('GET', pathOf(user))).json.name, 'Kept')
  assert.equal((await again.ask('GET', finished)).json.result.ms, 0)
  assert.equal(pathOf(await again.submit('wait', { ms: 0 }, key)), finished)
  assert.equal((await again.ask('GET', file.url)).text, text)
  const head = await again.ask('HEAD', upload)
  assert.deepEqual([head.status, head.headers.get('upload-offset')], [204, '12'])
  assert.equal((await append(again, upload, 12, 'me":"Eleven"}\n', '?1')).json.summary.succeeded, 1)
  assert.equal((await again.ask('GET', '/api/users/11')).json.name, 'Eleven')
  await eventually(async () => (await again.ended(running)).json.status === 'completed', 60_000, 'the task runs again')
  next.child.kill('SIGTERM')
  assert.deepEqual([await next.exited, next.err], [{ code: 0, signal: null }, ''])
})
