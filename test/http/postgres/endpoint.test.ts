import assert from 'node:assert/strict'
import { createServer } from 'node:http'
import type { AddressInfo } from 'node:net'
import { once } from 'node:events'
import { after, describe, it } from 'node:test'
import express from 'express'
import fastify from 'fastify'
import {
  createTasks, defineTask, guard, HttpError, jsonSchema, router, taskEndpoints,
  type SubmitTransaction,
} from 'longhaul'
import { fastifyLonghaul } from 'longhaul/fastify'
import { memory } from 'longhaul/memory'
import { toMiddleware, toNode } from 'longhaul/node'
import { postgres } from 'longhaul/postgres'
import { withFaults } from '../../../conformance/engine/faults.js'
import { databaseForFile } from '../kit/postgres.js'
import { listen } from '../../kit/listen.js'

const { pool, transact, tasksOver } = await databaseForFile()

interface Invoice { readonly id: string, readonly amount: number, readonly slow?: boolean }

let release = (): void => undefined
const released = new Promise<void>((resolve) => { release = resolve })
const invoice = defineTask({
  name: 'invoice',
  input: jsonSchema<Invoice>({ type: 'object', required: ['id', 'amount'] }),
  run: async ({ id, slow }) => {
    const { rows } = await pool.query('SELECT amount FROM invoices WHERE id = $1', [id])
    if (slow) await released
    return { message: `sent ${id}`, rows }
  },
})
const tasks = tasksOver({ definitions: [invoice] })
const endpoints = taskEndpoints(tasks, {
  statusPath: '/tasks/{id}',
  anonymous: true,
  owner: ({ headers }) => headers['x-user'] as string | undefined,
  syncTimeoutMs: 1500,
})

/** Number of calls of the hook for each invoice. */
const calls = new Map<string, number>()
/** Called in the transaction, after the submit. */
let beforeCommit: (input: Invoice) => Promise<unknown> = async () => undefined

const transaction: SubmitTransaction<unknown, Invoice> = (_request, input, submit) => transact(async (client) => {
  calls.set(input.id, (calls.get(input.id) ?? 0) + 1)
  await client.query('INSERT INTO invoices VALUES ($1, $2)', [input.id, input.amount])
  const { taskId } = await submit(client)
  await client.query('UPDATE invoices SET task = $2 WHERE id = $1', [input.id, taskId])
  await beforeCommit(input)
})

const heard: unknown[] = []
const handler = router({
  'POST /invoices': endpoints.submit(invoice, { transaction }),
  'POST /forgets': endpoints.submit(invoice, { transaction: async () => undefined }),
  'POST /swallows': endpoints.submit(invoice, {
    transaction: async (request, input, submit) => {
      const client = await pool.connect()
      await client.query('BEGIN')
      await submit(client)
      await client.query('ROLLBACK')
      client.release()
    },
  }),
  'GET /tasks/{id}': endpoints.status,
})
const site = createServer(toNode(guard(handler, { onError: (error) => { heard.push(error) } })))
const { url: origin, close: closeSite } = await listen(site)
after(closeSite)

const post = (body: unknown, headers: Record<string, string> = {}, path = '/invoices', at = origin) =>
  fetch(at + path, {
    method: 'POST',
    headers: { 'content-type': 'application/json', 'prefer': 'respond-async', ...headers },
    body: JSON.stringify(body),
  })
const rowOf = async (id: string) =>
  (await pool.query<{ amount: number; task: string }>('SELECT amount, task FROM invoices WHERE id = $1', [id])).rows[0]

describe('endpoints.submit with a transaction of the application', () => {
  it('responds with 202 after the commit, with a valid Location', async () => {
    const response = await post({ id: 'a', amount: 5 })
    assert.equal(response.status, 202)
    const { taskId } = await response.json() as { taskId: string }
    assert.deepEqual(await rowOf('a'), { amount: 5, task: taskId })
    assert.equal(response.headers.get('location'), `/tasks/${taskId}`)
    assert.equal((await fetch(origin + `/tasks/${taskId}`)).status, 200)
    assert.equal((await tasks.wait(taskId, { timeoutMs: 60_000 }))?.status, 'completed')
  })

  it('responds synchronously with the result, and the task is kept', async () => {
    const response = await post({ id: 'direct', amount: 7 }, { prefer: '' })
    assert.equal(response.status, 200)
    assert.deepEqual(await response.json(), { message: 'sent direct', rows: [{ amount: 7 }] })
    assert.equal((await tasks.get((await rowOf('direct'))?.task ?? ''))?.status, 'completed')
  })

  it('names the task, which continues, if a synchronous response takes too long', async () => {
    const response = await post({ id: 'slow', amount: 7, slow: true }, { prefer: '' })
    assert.equal(response.status, 503)
    const taskId = (await rowOf('slow'))?.task ?? ''
    assert.equal(response.headers.get('location'), `/tasks/${taskId}`)
    assert.equal(response.headers.get('retry-after'), null)
    release()
    assert.equal((await tasks.wait(taskId, { timeoutMs: 60_000 }))?.status, 'completed')
  })

  it('returns the same task to a retry with its Idempotency-Key, and does not call the function', async () => {
    const headers = { 'idempotency-key': 'key-b' }
    const first = await post({ id: 'b', amount: 1 }, headers)
    const again = await post({ id: 'b', amount: 1 }, headers)
    assert.deepEqual([first.status, again.status], [202, 202])
    assert.equal(first.headers.get('location'), again.headers.get('location'))
    assert.deepEqual(
      [first.headers.get('idempotent-replayed'), again.headers.get('idempotent-replayed')],
      [null, 'true'],
    )
    assert.equal(calls.get('b'), 1)
    assert.equal((await post({ id: 'other', amount: 1 }, headers)).status, 422)
    assert.equal(calls.has('other'), false)
  })

  it('commits one of ten concurrent requests with a key, and all get its task', async () => {
    const headers = { 'idempotency-key': 'key-c' }
    const bodies = Array.from({ length: 10 }, () => post({ id: 'c', amount: 1 }, headers))
    const answers = await Promise.all(bodies)
    // The others may have failed on the host's own primary key, before their submit.
    const accepted = answers.filter(({ status }) => status === 202)
    assert.ok(accepted.length > 0)
    assert.equal(new Set(accepted.map((each) => each.headers.get('location'))).size, 1)
    const again = await post({ id: 'c', amount: 1 }, headers)
    assert.equal(again.headers.get('location'), accepted[0]?.headers.get('location'))
  })

  it('makes a second request with the key wait for the first transaction, roll back and get the first task', async (t) => {
    const headers = { 'idempotency-key': 'key-d' }
    let second: Promise<Response> | undefined
    let hasWaited = false
    beforeCommit = async () => {
      if (second) return
      // Its hook inserts a row of its own before it submits.
      second = submitFirst({ id: 'd', amount: 1 }, headers)
      hasWaited = await Promise.race([
        second.then(() => false),
        new Promise<true>((resolve) => {
          setTimeout(resolve, 200, true)
        }),
      ])
    }
    t.after(() => { beforeCommit = async () => undefined })
    const first = await submitFirst({ id: 'd', amount: 1 }, headers)
    const replay = await (second as unknown as Promise<Response>)
    assert.equal(hasWaited, true)
    assert.deepEqual([first.status, replay.status], [202, 202])
    assert.equal(replay.headers.get('location'), first.headers.get('location'))
    assert.equal(replay.headers.get('idempotent-replayed'), 'true')
    assert.equal((await pool.query("SELECT 1 FROM invoices WHERE id LIKE 'd-%'")).rows.length, 1)
  })

  it('frees the key of a function that rolls back, and sends its error as it was thrown', async (t) => {
    beforeCommit = async () => { throw new HttpError(402, 'no_credit') }
    t.after(() => { beforeCommit = async () => undefined })
    const refused = await post({ id: 'e', amount: 1 }, { 'idempotency-key': 'key-e' })
    assert.equal(refused.status, 402)
    assert.equal((await refused.json() as { code: string }).code, 'no_credit')
    assert.equal(await rowOf('e'), undefined)
    beforeCommit = async () => { throw new Error('secret') }
    heard.length = 0
    assert.equal((await post({ id: 'e', amount: 1 }, { 'idempotency-key': 'key-e' })).status, 500)
    assert.match(String(heard[0]), /secret/)
    beforeCommit = async () => undefined
    // With a claim, another body would be a 422.
    assert.equal((await post({ id: 'e', amount: 2 }, { 'idempotency-key': 'key-e' })).status, 202)
  })

  it('responds with 500 if the function does not submit or does not commit', async () => {
    heard.length = 0
    assert.equal((await post({ id: 'f', amount: 1 }, {}, '/forgets')).status, 500)
    assert.match(String(heard[0]), /must call submit/)
    assert.equal((await post({ id: 'f', amount: 1 }, {}, '/swallows')).status, 500)
    assert.match(String(heard[1]), /has not committed/)
  })

  it('responds with 202 if the engine fails after the commit', async () => {
    const { engine, store } = postgres({ pool })
    let isDown = false
    const faulty = withFaults(engine, (call) => isDown && call === 'read' ? 'failed' : undefined)
    const own = createTasks({ engine: faulty, store, definitions: [invoice], worker: false })
    const { submit } = taskEndpoints(own, { statusPath: '/tasks/{id}', owner: 'anyone' })
    const failing = createServer(toNode(submit(invoice, {
      transaction: async (request, input, accept) => {
        await transact(async (client) => { await accept(client) })
        isDown = true
      },
    })))
    const { url: at, close } = await listen(failing)
    try {
      const response = await post({ id: 'down', amount: 1 }, {}, '/', at)
      assert.equal(response.status, 202)
      const { taskId } = await response.json() as { taskId: string }
      isDown = false
      assert.ok(await own.get(taskId), 'the task has committed')
    } finally {
      await close()
      await own.close()
      await store.close()
    }
  })

  it('rejects an invalid body before it calls the function', async () => {
    assert.equal((await post({ id: 'g' })).status, 400)
    assert.equal(calls.has('g'), false)
  })

  it('allows the function to retry its transaction', async () => {
    let tries = 0
    const retrying = endpoints.submit(invoice, {
      transaction: async (request, input, submit) => {
        for (;;) {
          try {
            return await transact(async (client) => {
              const { taskId } = await submit(client)
              await client.query('INSERT INTO invoices VALUES ($1, $2, $3)', [input.id, input.amount, taskId])
              if (++tries < 3) throw Object.assign(new Error('could not serialize access'), { code: '40001' })
            })
          } catch (error) {
            if ((error as { code?: string }).code !== '40001') throw error
          }
        }
      },
    })
    const server = createServer(toNode(retrying))
    const { url: at, close } = await listen(server)
    const response = await post({ id: 'retried', amount: 1 }, { 'idempotency-key': 'key-r' }, '/', at)
    await close()
    assert.equal(response.status, 202)
    assert.deepEqual(
      [tries, (await rowOf('retried'))?.task],
      [3, response.headers.get('location')?.slice('/tasks/'.length)],
    )
  })

  it('works in Express and in Fastify', async () => {
    const app = express()
    app.use(toMiddleware(handler))
    const server = app.listen(0, '127.0.0.1')
    await once(server, 'listening')
    const inExpress = await post(
      { id: 'express', amount: 1 },
      {},
      '/invoices',
      `http://127.0.0.1:${String((server.address() as AddressInfo).port)}`,
    )
    server.close()
    assert.equal(inExpress.status, 202)
    const other = fastify()
    await other.register(fastifyLonghaul, { handler })
    const at = await other.listen({ port: 0, host: '127.0.0.1' })
    const inFastify = await post({ id: 'fastify', amount: 1 }, {}, '/invoices', at)
    await other.close()
    assert.equal(inFastify.status, 202)
    assert.ok(await rowOf('express') && await rowOf('fastify'))
  })

  it('rejects an engine without transactions, and a value that is not a function', () => {
    const inMemory = createTasks({ ...memory(), definitions: [invoice] })
    const { submit } = taskEndpoints(inMemory, { statusPath: '/tasks/{id}', owner: 'anyone' })
    assert.throws(() => submit(invoice, { transaction }), {
      name: 'TypeError',
      message: /needs the engine of longhaul\/postgres/,
    })
    assert.throws(() => endpoints.submit(invoice, { transaction: pool as never }), {
      name: 'TypeError',
      message: /must be a function/,
    })
  })
})

/** A request whose hook submits first, and writes a row under a name of its own. */
let made = 0
async function submitFirst(body: Invoice, headers: Record<string, string>): Promise<Response> {
  const own = endpoints.submit(invoice, {
    transaction: (request, input, submit) => transact(async (client) => {
      await client.query('INSERT INTO invoices VALUES ($1, $2)', [`${input.id}-${String(made++)}`, input.amount])
      await submit(client)
      await beforeCommit(input)
    }),
  })
  const { url, close } = await listen(createServer(toNode(own)))
  try {
    return await post(body, headers, '/', url)
  } finally {
    await close()
  }
}
