// `bulk` and `upload` of the client over connections that break, and after a 413: no item is sent
// again that a report has answered, and
// none after a lost response unless the server has acknowledged the key. With our handlers, and
// with a server that ignores keys.
import assert from 'node:assert/strict'
import { createServer as createHttp, type RequestListener } from 'node:http'
import { createConnection, createServer, type AddressInfo } from 'node:net'
import { describe, test, type TestContext } from 'node:test'
import { createTasks, jsonSchema, router, taskEndpoints } from 'longhaul'
import { bulkCreate, bulkUpdate } from 'longhaul/bulk'
import { createClient, isBulkFailed, type BulkReport, type ClientError } from 'longhaul/client'
import { memory } from 'longhaul/memory'
import { attach } from 'longhaul/node'
import { listen } from '../../kit/listen.js'

interface Item { readonly n: number, readonly text?: string }

const retry = { baseMs: 1, maxMs: 20, attempts: 5 }
const itemsOf = (count: number): Item[] => Array.from({ length: count }, (_, n) => ({ n }))

/** A proxy that ends the connection instead of passing on the responses with these numbers, from 0. */
async function cutting(t: TestContext, port: number, lost: readonly number[]): Promise<string> {
  let responses = 0
  const server = createServer((near) => {
    const far = createConnection({ port, host: '127.0.0.1' })
    near.on('data', (data) => { far.write(data) }).on('close', () => far.destroy()).on('error', () => undefined)
    far.on('data', (data) => {
      const isHead = data.subarray(0, 9).toString() === 'HTTP/1.1 '
      if (isHead && lost.includes(responses++)) near.destroy()
      else near.write(data)
    }).on('close', () => near.destroy()).on('error', () => undefined)
  })
  await new Promise<void>((resolve) => { server.listen(0, '127.0.0.1', resolve) })
  t.after(() => server.close())
  return `http://127.0.0.1:${(server.address() as AddressInfo).port}`
}

const schema = jsonSchema<Item>({
  type: 'object',
  required: ['n'],
  properties: { n: { type: 'integer' }, text: { type: 'string' } },
})

/** Our handlers: with a key, and without one. `written` has each write of an item. */
async function ours(
  t: TestContext,
  {
    lost = [],
    maxItems = 100_000,
    maxBodyBytes = 1_048_576,
  }: { lost?: number[]; maxItems?: number; maxBodyBytes?: number } = {},
) {
  const written: number[] = []
  const { blobs, ...engine } = memory()
  const repository = {
    create: (item: Item) => {
      written.push(item.n)
      return { id: item.n }
    },
    update: (n: number, _: Item) => {
      written.push(n)
      return { id: n }
    },
  }
  const limits = { schema, maxItems, maxBodyBytes }
  const create = bulkCreate({ repository, ...limits, background: { name: 'create', blobs } })
  const update = bulkUpdate({
    repository,
    ...limits,
    id: ({ n }: Item) => n,
    change: (item: Item) => item,
    background: { name: 'update', blobs },
  })
  const tasks = createTasks({ ...engine, definitions: [create.task, update.task] })
  const endpoints = taskEndpoints(tasks, { statusPath: '/tasks/{id}', owner: 'anyone' })
  const server = createHttp()
  let requests = 0
  server.on('request', () => {
    requests++
  })
  attach(
    server,
    router({
      'POST /keyed': create.handler(endpoints),
      'PATCH /keyed': update.handler(endpoints),
      'POST /plain': bulkCreate({ repository, ...limits }),
      'GET|HEAD|DELETE /tasks/{id}': endpoints.status,
    }),
  )
  const running = await listen(server)
  t.after(async () => {
    await tasks.close()
    await running.close()
  })
  return {
    written,
    client: createClient({ baseUrl: await cutting(t, running.port, lost), retry }),
    requests: () => requests,
  }
}

async function foreign(t: TestContext, serve: RequestListener, lost: readonly number[] = []) {
  const running = await listen(createHttp(serve))
  t.after(() => running.close())
  return createClient({ baseUrl: await cutting(t, running.port, lost), retry })
}

function assertOnce(written: readonly number[], count: number) {
  assert.equal(written.length, count)
  assert.equal(new Set(written).size, count)
}

describe('client.bulk with our handlers', () => {
  for (const [method, items] of [['POST', ''], ['PATCH', '/updates']] as const) {
    for (const background of [false, true]) {
      test(`${method}${background ? ' in the background' : ''}: the client repeats the request with its key after a lost response, and each item is written once`, async (t) => {
        for (const lost of [[0], [0, 1], [1], [0, 2, 3]]) {
          const { client, written } = await ours(t, { lost })
          const report = await client.bulk('/keyed', itemsOf(30), { method, items, maxItems: 10, background })
          assert.deepEqual(report.summary, { total: 30, succeeded: 30, failed: 0 })
          assertOnce(written, 30)
        }
      })
    }
  }

  test('sends no keys to an endpoint without keys, and does not repeat a lost request', async (t) => {
    const good = await ours(t)
    assert.equal((await good.client.bulk('/plain', itemsOf(30), { maxItems: 10 })).summary.succeeded, 30)
    assertOnce(good.written, 30)
    // The first response is the 400 that refuses the key.
    for (const lost of [[1], [2], [3]]) {
      const { client, written } = await ours(t, { lost })
      const error = await client.bulk('/plain', itemsOf(30), { maxItems: 10 }).then(
        () => assert.fail(),
        (error: unknown) => error,
      )
      assert.ok(isBulkFailed(error))
      assert.equal((error.cause as ClientError).code, 'network_error')
      assertOnce(written, lost[0] as number * 10)
      assert.equal(error.report.summary.total, (lost[0] as number - 1) * 10)
    }
    const named = await ours(t)
    await assert.rejects(
      named.client.bulk('/plain', itemsOf(3), { idempotencyKey: 'mine' }),
      (error: { cause: ClientError }) => error.cause.code === 'idempotency_not_supported',
    )
    assert.deepEqual(named.written, [])
  })

  for (const path of ['/plain', '/keyed']) {
    test(`${path}: writes 5,000 items beyond maxItems, and an item of 2 MiB among 4,000, at most once each`, async (t) => {
      const many = await ours(t, { maxItems: 2000 })
      assert.deepEqual((await many.client.bulk(path, itemsOf(5000), { maxItems: 5000 })).summary, {
        total: 5000,
        succeeded: 5000,
        failed: 0,
      })
      assertOnce(many.written, 5000)
      const large = itemsOf(4000).map((item) =>
        item.n === 2500 ? { ...item, text: 'x'.repeat(2 * 1024 * 1024) } : item,
      )
      const one = await ours(t)
      const { summary, items } = await one.client.bulk(path, large, { maxItems: 4000, maxBodyBytes: 8 * 1024 * 1024 })
      assert.deepEqual(summary, { total: 4000, succeeded: 3999, failed: 1 })
      assert.deepEqual(
        items.filter(({ status }) => status >= 400).map(({ index, status }) => [index, status]),
        [[2500, 413]],
      )
      assert.deepEqual(
        items.map(({ index }) => index),
        large.map((_, index) => index),
      )
      assertOnce(one.written, 3999)
    })
  }
})

/** Writes the first `room` items of a request; the rest is a 413, or another error, with the report of those. */
function partial(written: number[], room: number, status: number, only: 'all' | 'failed'): RequestListener {
  return (request, response) => {
    let text = ''
    request.setEncoding('utf8').on('data', (piece: string) => { text += piece }).on('end', () => {
      const items = JSON.parse(text) as Item[]
      const done = items.slice(0, room)
      written.push(...done.map(({ n }) => n))
      const outcomes = done.map(({ n }, index) =>
        n % 10 === 0 ? { index, status: 409, error: { code: 'conflict', message: 'No.' } } : { index, status: 201 },
      )
      const failed = outcomes.filter((outcome) => outcome.status === 409)
      const report = {
        summary: { total: done.length, succeeded: done.length - failed.length, failed: failed.length },
        items: only === 'all' ? outcomes : failed,
      }
      const isWhole = done.length === items.length
      response.writeHead(isWhole ? 207 : status, {
        'content-type': 'application/json',
        ...(status === 503 && { 'retry-after': '0' }),
      })
      response.end(JSON.stringify(isWhole ? report : { error: 'Enough.', code: 'enough', ...report }))
    })
  }
}

describe('client.bulk with other servers', () => {
  for (const only of ['all', 'failed'] as const) {
    test(`sends only the items without an outcome again after a 413 with a report of ${only} items`, async (t) => {
      const written: number[] = []
      const client = await foreign(t, partial(written, 7, 413, only))
      const { summary, items } = await client.bulk('/items', itemsOf(100), { maxItems: 30 })
      assert.deepEqual(summary, { total: 100, succeeded: 90, failed: 10 })
      assert.deepEqual(
        items.filter(({ status }) => status === 409).map(({ index }) => index),
        itemsOf(10).map(({ n }) => n * 10),
      )
      assertOnce(written, 100)
    })

    for (const status of [400, 500, 503]) {
      test(`does not repeat a ${status} with a report of ${only} items, and has the report in the error`, async (t) => {
        const written: number[] = []
        const client = await foreign(t, partial(written, 7, status, only))
        const error = await client.bulk('/items', itemsOf(20), { maxItems: 10 }).then(
          (report: BulkReport) => assert.fail(JSON.stringify(report.summary)),
          (error: unknown) => error,
        )
        assert.ok(isBulkFailed(error))
        assert.equal((error.cause as ClientError).status, status)
        assert.deepEqual(error.report.summary, { total: 7, succeeded: 6, failed: 1 })
        assertOnce(written, 7)
      })
    }
  }

  for (const lost of [0, 1]) {
    test(`sends nothing twice to a server that ignores keys, if response number ${lost} is lost`, async (t) => {
      const written: number[] = []
      const client = await foreign(t, partial(written, 100, 413, 'all'), [lost])
      const error = await client.bulk('/items', itemsOf(30), { maxItems: 10, idempotencyKey: 'mine' }).then(
        () => assert.fail(),
        (error: unknown) => error,
      )
      assert.ok(isBulkFailed(error))
      assert.equal((error.cause as ClientError).code, 'network_error')
      assert.equal(error.report.summary.total, lost * 10)
      assertOnce(written, (lost + 1) * 10)
    })
  }

  test('repeats a request that was rejected before any work, with or without keys', async (t) => {
    const written: number[] = []
    let busy = 2
    const serve = partial(written, 100, 413, 'all')
    const client = await foreign(t, (request, response) => {
      if (busy-- > 0) response.writeHead(503, { 'retry-after': '0' }).end()
      else serve(request, response)
    })
    await client.bulk('/items', itemsOf(10))
    assertOnce(written, 10)
  })
})

test('client.bulk neither repeats a lost PUT nor sends a PUT without items, because it may delete all', async (t) => {
  const bodies: string[] = []
  const client = await foreign(t, (request, response) => {
    let body = ''
    request.on('data', (data) => { body += String(data) }).on('end', () => {
      bodies.push(body)
      response.writeHead(200, { 'content-type': 'application/json' }).end('{}')
    })
  }, [0])
  await assert.rejects(client.bulk('/users', itemsOf(3), { method: 'PUT' }), isBulkFailed)
  assert.deepEqual(bodies, [JSON.stringify(itemsOf(3))])
})

describe('the client and a server that ignores keys', () => {
  test('upload in the background does not repeat a lost request, and sends no records to ask whether the server keeps keys', async (t) => {
    const bodies: string[] = []
    const client = await foreign(t, (request, response) => {
      let text = ''
      request.setEncoding('utf8').on('data', (piece: string) => { text += piece }).on('end', () => {
        bodies.push(text)
        response.writeHead(202, { 'content-type': 'application/json', 'location': '/tasks/1' }).end('{"taskId":"1"}')
      })
    }, [0])
    await assert.rejects(client.upload('/items', itemsOf(3), { background: true }), { code: 'network_error' })
    assert.deepEqual(bodies.map((body) => body.length > 0), [true, false])
  })

  test('upload does not repeat a request after a 503 with Retry-After that reports written records', async (t) => {
    let requests = 0
    const client = await foreign(t, (request, response) => {
      requests++
      request.resume().on('end', () => {
        response
          .writeHead(503, { 'content-type': 'application/json', 'retry-after': '0' })
          .end('{"error":"Away.","code":"away","summary":{"total":2,"succeeded":2,"failed":0},"errors":[]}')
      })
    })
    await assert.rejects(client.upload('/items', itemsOf(3)), { code: 'away' })
    assert.equal(requests, 1)
  })

  test('submit does not repeat a lost request after a response without the acknowledgement of its key', async (t) => {
    let requests = 0
    const client = await foreign(t, (request, response) => {
      requests++
      request.resume().on('end', () => {
        response.writeHead(202, { 'content-type': 'application/json', 'location': '/tasks/1' }).end('{"taskId":"1"}')
      })
    }, [1])
    await client.submit('/work', {})
    await assert.rejects(client.submit('/work', {}), { code: 'network_error' })
    assert.equal(requests, 2)
  })
})
