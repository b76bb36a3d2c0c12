// What docs/guarantees.md says no to.
import assert from 'node:assert/strict'
import { test } from 'node:test'
import { receiver } from '../../http/kit/callbacks.js'
import { startProcess, stopAfterwards } from '../../http/kit/process.js'
import { Client } from '../../http/kit/reference.js'
import { pause } from '../../kit/wait.js'

stopAfterwards()

test('an engine in memory keeps no status, no work and no callback when its process is killed', async (t) => {
  const { url: callbackUrl, seen } = await receiver(t)
  const env = { AUTH_TOKENS: 'writer-1=will:writer', CALLBACK_ALLOW: '127.0.0.1' }
  const killed = startProcess(env)
  const accepted = await new Client(await killed.url()).ask('POST', '/start-task', {
    body: { taskData: 'x', callbackUrl },
  })
  assert.equal(accepted.status, 202)
  killed.child.kill('SIGKILL')
  await killed.exited
  const before = seen.length
  const next = new Client(await startProcess(env).url())
  assert.equal((await next.ask('GET', accepted.headers.get('location') ?? '')).status, 404)
  // The work takes less than a second.
  await pause(1500)
  assert.equal(seen.length, before)
})
