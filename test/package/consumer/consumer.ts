// A user's program, compiled and run against the installed package as an ES module and as CommonJS.
import assert from 'node:assert/strict'
import { once } from 'node:events'
import { createServer } from 'node:http'
import { type AddressInfo } from 'node:net'
import { createTasks, defineTask, isStoreUnavailable, jsonSchema, router, taskEndpoints, type Handler } from 'longhaul'
import { toFetch } from 'longhaul/fetch'
import { memory } from 'longhaul/memory'
import { toNode } from 'longhaul/node'

const double = defineTask({
  name: 'double',
  input: jsonSchema<{ amount: number }>({ type: 'object', required: ['amount'], properties: { amount: { type: 'integer' } } }),
  run: ({ amount }, { progress }) => {
    progress(1, 1)
    return { message: `doubled ${amount.toFixed()}`, amount: amount * 2 }
  }
})

const { store, queue } = memory()
const tasks = createTasks({ store, queue, definitions: [double] })
const endpoints = taskEndpoints(tasks, { statusPath: '/tasks/{id}' })
const handler: Handler = router({ 'POST /double': endpoints.submit(double), 'GET|HEAD|DELETE /tasks/{id}': endpoints.status })

const headers = { 'content-type': 'application/json' }
const post = (body: unknown, prefer?: string): RequestInit => ({
  method: 'POST', body: JSON.stringify(body), headers: prefer === undefined ? headers : { ...headers, prefer }
})

async function main(): Promise<void> {
  const server = createServer(toNode(handler))
  server.listen(0, '127.0.0.1')
  await once(server, 'listening')
  const base = `http://127.0.0.1:${(server.address() as AddressInfo).port.toFixed()}`

  const direct = await fetch(`${base}/double`, post({ amount: 2 }))
  assert.equal(direct.status, 200)
  assert.deepEqual(await direct.json(), { message: 'doubled 2', amount: 4 })

  const accepted = await fetch(`${base}/double`, post({ amount: 3 }, 'respond-async'))
  assert.equal(accepted.status, 202)
  const location = accepted.headers.get('location')
  assert.ok(location !== null)

  const done = await toFetch(handler)(new Request(base + location, { headers: { prefer: 'wait=10' } }))
  assert.equal(done.status, 200)
  const { status, result } = await done.json() as { status: string, result: unknown }
  assert.deepEqual({ status, result }, { status: 'completed', result: { message: 'doubled 3', amount: 6 } })

  const bad = await fetch(`${base}/double`, post({ amount: 'many' }))
  assert.equal(bad.status, 400)
  assert.equal((await bad.json() as { code: string }).code, 'invalid_input')

  // An error is recognised across entry points, which may hold different copies of its class.
  const small = memory({ maxEntries: 1 })
  const write = async (key: string) => small.store.create(key, '', { expiresAt: Date.now() + 60_000 })
  await write('a')
  await assert.rejects(write('b'), isStoreUnavailable)
  await small.store.close()

  server.close()
  server.closeAllConnections()
  await tasks.close()
  await queue.close()
  await store.close()
}

main().catch((error: unknown) => {
  console.error(error)
  process.exitCode = 1
})
