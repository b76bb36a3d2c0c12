import assert from 'node:assert/strict'
import { test } from 'node:test'
import { parseTokens } from '../../../examples/reference-server/auth.js'
import { startServer } from '../../../examples/reference-server/server.js'
import { Client, TOKENS } from '../kit/reference.js'

test('a task that does not end in time is stopped with the status task_interrupted', async () => {
  const server = await startServer({ host: '127.0.0.1', port: 0, tokens: parseTokens(TOKENS), drainMs: 50 })
  const client = new Client(server.url)
  const task = (await client.submit('wait', { ms: 60_000 })).headers.get('location') ?? ''
  const events = await client.open('GET', task, { headers: { accept: 'text/event-stream' } })
  const stopped = server.stop()
  assert.match(await events.text(), /"code":"task_interrupted"/)
  await stopped
})
