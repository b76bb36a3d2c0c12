// The client with its retries against a server whose work takes longer than it waits.
import assert from 'node:assert/strict'
import { test } from 'node:test'
import { createClient } from '../../../src/client/index.js'
import { defineTask } from '../../../src/tasks/definition/define.js'
import { site } from '../kit/tasks.js'

for (const direct of ['request', 'task'] as const) {
  test(`work of 1.5 s with timeoutMs of 1 s is done once, and the client gets its result, with direct: ${direct}`, async (t) => {
    let charges = 0
    const charge = defineTask({
      name: 'charge',
      run: async () => {
        charges++
        await new Promise((resolve) => {
          setTimeout(resolve, 1500)
        })
        return { message: `charge ${String(charges)}` }
      },
    })
    const { port, tasks } = await site(t, 'node', charge, { direct })
    const client = createClient({ baseUrl: `http://127.0.0.1:${String(port)}`, timeoutMs: 1000 })
    assert.deepEqual(await client.run('/api/work', { amount: 1 }, { background: false }), { message: 'charge 1' })
    assert.equal(charges, 1)
    assert.equal((await tasks.health()).running, 0)
  })
}

test('the client sends the request again if a synchronous response says that its key will have another outcome', async (t) => {
  let charges = 0
  const charge = defineTask({
    name: 'charge', run: async () => {
      charges++
      await new Promise((resolve) => { setTimeout(resolve, 300) })
      return { message: 'charged' }
    },
  })
  const { port } = await site(t, 'node', charge, { endpoints: { syncTimeoutMs: 100 } })
  const client = createClient({ baseUrl: `http://127.0.0.1:${String(port)}` })
  assert.deepEqual(await client.run('/api/work', {}, { background: false }), { message: 'charged' })
  assert.equal(charges, 1)
  // Without a key nobody knows what became of it, so the client does not send it again.
  await assert.rejects(client.run('/api/work', {}, { background: false, idempotencyKey: false }), {
    status: 503,
    code: 'sync_timeout',
  })
  assert.equal(charges, 2)
})
