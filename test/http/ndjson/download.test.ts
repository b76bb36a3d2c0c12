import assert from 'node:assert/strict'
import { createServer } from 'node:http'
import { after, before, describe, test } from 'node:test'
import { readNdjson } from 'longhaul/client'
import { ndjsonDownload } from 'longhaul/ndjson'
import { router } from 'longhaul'
import { attach } from 'longhaul/node'
import { listen, type Listening } from '../../kit/listen.js'
import { ask, eventually, open } from '../kit/wire.js'

describe('a download over a socket', () => {
  let server: Listening
  let opened = 0
  let closed = 0
  let given = 0

  async function* endless(): AsyncGenerator<object[]> {
    opened++
    try {
      for (;;) {
        await new Promise((resolve) => setImmediate(resolve))
        given++
        yield Array.from({ length: 100 }, (_, id) => ({ id, pad: 'x'.repeat(600) }))
      }
    } finally {
      closed++
    }
  }
  async function* failing(): AsyncGenerator<object> {
    yield { id: 0 }
    await new Promise((resolve) => setTimeout(resolve, 100))
    throw new Error('the database is gone')
  }
  const people = [{ id: 0, name: 'Ann' }, { id: 1, name: 'Zoë' }]

  before(async () => {
    const http = createServer()
    attach(http, router({
      'GET /bulk-data': ndjsonDownload({ records: () => people }),
      'GET /endless': ndjsonDownload({ records: endless }),
      'GET /failing': ndjsonDownload({ records: failing }),
      'GET /at-once': ndjsonDownload({ records: () => { throw new Error('no database') } }),
    }), { onError: () => undefined })
    server = await listen(http)
  })
  after(() => server.close())

  test('SPEC 4.9, 4.9.format.1: sends one record per line to each client that accepts NDJSON', async () => {
    for (const headers of [{}, { accept: 'application/x-ndjson' }, { accept: '*/*' }]) {
      const answer = await ask(server.port, 'GET', '/bulk-data', { headers })
      assert.deepEqual([answer.status, answer.headers['content-type']], [200, 'application/x-ndjson'])
      assert.deepEqual(answer.body.trimEnd().split('\n').map((line) => JSON.parse(line) as object), people)
    }
  })
  test('arrives decoded at readNdjson as it is sent', async () => {
    const all = async (response: Response): Promise<unknown[]> => {
      const read: unknown[] = []
      for await (const record of readNdjson(response)) read.push(record)
      return read
    }
    const response = await fetch(`http://127.0.0.1:${server.port}/bulk-data`)
    assert.ok(response.headers.get('content-encoding'))
    assert.deepEqual(await all(response), people)
    const bytes = Buffer.from('{"name":"Zoë"}\n{"id":1}')
    const cut = new ReadableStream<Uint8Array>({
      start: (controller) => {
        for (const byte of bytes) controller.enqueue(Uint8Array.of(byte))
        controller.close()
      },
    })
    assert.deepEqual(await all(new Response(cut)), [{ name: 'Zoë' }, { id: 1 }])
  })

  test('has the same headers for HEAD without a body, and leaves nothing open', async () => {
    const [head, get] = [await ask(server.port, 'HEAD', '/bulk-data'), await ask(server.port, 'GET', '/bulk-data')]
    assert.equal(head.body, '')
    for (const name of ['content-type', 'vary']) assert.equal(head.headers[name], get.headers[name])
    const before = given
    assert.equal((await ask(server.port, 'HEAD', '/endless')).status, 200)
    assert.equal(given, before)
  })
  test('stops its source when a client disconnects, with and without a content coding', async () => {
    for (const headers of [{}, { 'accept-encoding': 'gzip' }]) {
      opened = closed = given = 0
      const response = await open(server.port, 'GET', '/endless', { headers })
      await new Promise((resolve) => response.once('data', resolve))
      response.destroy()
      await eventually(() => closed === 1, 'the source is closed')
      const before = given
      await new Promise((resolve) => setTimeout(resolve, 30))
      assert.deepEqual([opened, given], [1, before])
    }
  })
  test('pauses its source while a client does not read', async () => {
    opened = closed = given = 0
    const response = await open(server.port, 'GET', '/endless')
    response.pause()
    let before = -1
    await eventually(() => {
      const still = given === before && given > 0
      before = given
      return still
    }, 'the source rests')
    assert.equal(closed, 0)
    response.destroy()
    await eventually(() => closed === 1, 'the source is closed')
  })
  test('cuts the connection if its source fails midway, so that the client notices', async () => {
    for (const headers of [{}, { 'accept-encoding': 'gzip' }]) {
      const response = await open(server.port, 'GET', '/failing', { headers })
      assert.equal(response.statusCode, 200)
      await assert.rejects(async () => {
        for await (const chunk of response) assert.ok((chunk as Buffer).length > 0)
      })
      assert.equal(response.complete, false)
    }
  })
  test('responds with 500 if its source fails before the first record', async () => {
    const { status, body } = await ask(server.port, 'GET', '/at-once')
    assert.deepEqual([status, (JSON.parse(body) as { code: string }).code], [500, 'internal_error'])
  })
})
