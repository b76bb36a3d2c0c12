import assert from 'node:assert/strict'
import { after, before, beforeEach, describe, test } from 'node:test'
import { createClient, type Client } from '../../../src/client/index.js'
import { startSpecServer, type SpecServer } from '../kit/spec-server.js'

let server: SpecServer
let client: Client

before(async () => { server = await startSpecServer() })
after(() => server.close())
beforeEach(() => {
  server.intercept = () => false
  server.seen.length = 0
  client = createClient({
    baseUrl: server.url,
    retry: { baseMs: 5, maxMs: 3000, attempts: 10 },
    poll: { baseMs: 5, maxMs: 20 },
  })
})

async function all<T>(source: AsyncIterable<T>): Promise<T[]> {
  const found: T[] = []
  for await (const one of source) found.push(one)
  return found
}

describe('the client on a server that implements only SPEC', () => {
  test('follows a task', async () => {
    const task = await client.submit('/api/long-running-task', { task: 'x', data: { polls: 3 } })
    assert.equal(task.taskId, 'task-1')
    const statuses: string[] = []
    assert.deepEqual(
      await task.result({
        onProgress: ({ status }) => {
          statuses.push(status)
        },
      }),
      { message: 'Task completed.' },
    )
    assert.deepEqual(statuses, ['processing', 'completed'])
    assert.equal(server.seen.filter((line) => line.startsWith('GET')).length, 4)
  })

  test('gets a synchronous response', async () => {
    assert.deepEqual(await client.run('/api/long-running-task', { task: 'x', data: {} }, { background: false }), {
      message: 'Task completed.',
    })
  })

  test('follows a job', async () => {
    const job = await client.submit('/start-job', {})
    assert.match(job.statusUrl ?? '', /\/job-status\/\d+$/)
    const status = await job.status()
    assert.deepEqual([status.taskId, status.status], [job.taskId, 'processing'])
    assert.deepEqual(await job.result(), { message: '' })
  })

  test('follows a task that another client has started', async () => {
    const saved = JSON.stringify(await client.submit('/api/long-running-task', { task: 'x', data: { polls: 1 } }))
    const other = createClient({ baseUrl: server.url, poll: { baseMs: 5 } })
    assert.deepEqual(await other.resume(saved).result(), { message: 'Task completed.' })
    await assert.rejects(other.resume({ statusUrl: `${server.url}/api/status/none` }).result(), {
      status: 404,
      code: 'http_404',
      message: 'Task not found.',
    })
  })

  test('sends and reads records', async () => {
    assert.deepEqual(await all(client.records('/bulk-data')), [{ id: 1 }, { id: 2 }])
    assert.deepEqual(await client.upload('/upload-ndjson', [{ id: 1 }, { id: 2 }, { id: 3 }]), {
      message: 'Read 3 lines.',
    })
  })
})

describe('the client', () => {
  test('survives a connection that is reset while it submits, and while it polls', async () => {
    let faults = 0
    server.intercept = (request) => {
      if (++faults % 2 === 0) return false
      request.socket.destroy()
      return true
    }
    assert.deepEqual(await client.run('/api/long-running-task', { task: 'x', data: { polls: 2 } }), {
      message: 'Task completed.',
    })
    assert.equal(server.seen.length, 8)
  })

  test('survives a connection that is reset in the middle of events', async () => {
    const ids: (string | undefined)[] = []
    const event = (id: number, body: object) => `id: ${id}\ndata: ${JSON.stringify(body)}\n\n`
    server.intercept = (request, response) => {
      if (request.method !== 'GET') return false
      ids.push(request.headers['last-event-id'] as string | undefined)
      response.writeHead(200, { 'Content-Type': 'text/event-stream' })
      // The beginning of another event is lost with the connection.
      if (ids.length < 4)
        response.write(
          `${event(ids.length, { status: 'processing', progress: { done: ids.length } })}id: 9\ndata: {"sta`,
          () => setImmediate(() => request.socket.destroy()),
        )
      else response.end(event(4, { status: 'completed', result: { message: 'At last.' } }))
      return true
    }
    const heard: (number | undefined)[] = []
    const task = await client.submit('/api/long-running-task', { task: 'x', data: { polls: 0 } })
    assert.deepEqual(
      await task.result({
        onProgress: ({ progress }) => {
          heard.push(progress?.done)
        },
      }),
      { message: 'At last.' },
    )
    assert.deepEqual(heard, [1, 2, 3, undefined])
    assert.deepEqual(ids, [undefined, '1', '2', '3'])
  })

  test('survives a server that restarts between polls', async () => {
    const task = await client.submit('/api/long-running-task', { task: 'x', data: { polls: 2 } })
    let restarted: Promise<void> | undefined
    const result = task.result({
      onProgress: ({ status }) => {
        if (status === 'processing')
          restarted ??= server.restart(
            () =>
              new Promise((resolve) => {
                setTimeout(resolve, 100)
              }),
          )
      },
    })
    assert.deepEqual(await result, { message: 'Task completed.' })
    assert.ok(restarted)
    await restarted
  })

  test('waits after a 503 with Retry-After', async () => {
    const at: number[] = []
    server.intercept = (_, response) => {
      at.push(performance.now())
      if (at.length > 1) return false
      response.writeHead(503, { 'Retry-After': '1' }).end()
      return true
    }
    await client.submit('/api/long-running-task', { task: 'x', data: { polls: 0 } })
    assert.equal(at.length, 2)
    assert.ok((at[1] ?? 0) - (at[0] ?? 0) >= 990)
  })

  test('rejects if the records end too early', async () => {
    server.intercept = (request, response) => {
      response.writeHead(200, { 'Content-Type': 'application/x-ndjson' })
      response.write('{"id":1}\n{"id":2}\n{"id"', () => setImmediate(() => request.socket.destroy()))
      return true
    }
    const found: unknown[] = []
    await assert.rejects(
      async () => {
        for await (const record of client.records('/bulk-data')) found.push(record)
      },
      { name: 'ClientError', code: 'network_error' },
    )
    assert.deepEqual(found, [{ id: 1 }, { id: 2 }])
  })

  test('closes the connection of a download of records when its reader leaves', async () => {
    let closed: Promise<unknown> | undefined
    server.intercept = (request, response) => {
      closed = new Promise((resolve) => { request.socket.once('close', resolve) })
      response.writeHead(200, { 'Content-Type': 'application/x-ndjson' })
      response.write('{"id":1}\n')
      return true
    }
    for await (const record of client.records('/bulk-data')) {
      assert.deepEqual(record, { id: 1 })
      break
    }
    assert.ok(closed)
    await closed
  })

  test('gives up on a server that does not respond', async () => {
    const silent: unknown[] = []
    server.intercept = (_, response) => {
      silent.push(response)
      return true
    }
    const impatient = createClient({ baseUrl: server.url, timeoutMs: 400, retry: { attempts: 2, baseMs: 1 } })
    await assert.rejects(impatient.submit('/api/long-running-task', {}), { code: 'timeout' })
    assert.equal(silent.length, 2)
  })
})
