// serverless-http 3, whose `res.write` returns undefined. Most adapters for Lambda have this response.
import assert from 'node:assert/strict'
import { describe, test } from 'node:test'
import express from 'express'
import { json, router, stream, type Handler } from 'longhaul'
import { content } from 'longhaul/content'
import { ndjsonDownload } from 'longhaul/ndjson'
import { toNode } from 'longhaul/node'
import serverless from 'serverless-http'
import { within } from '../../kit/wait.js'

interface LambdaResponse {
  readonly statusCode: number
  readonly body: string
  readonly headers: Readonly<Record<string, string>>
}

const large = 'x'.repeat(300_000)

async function* pieces(): AsyncGenerator<string> {
  for (let at = 0; at < large.length; at += 50_000) yield large.slice(at, at + 50_000)
}

const source = {
  size: large.length, type: 'text/plain',
  open: (start: number, end: number) => [Buffer.from(large.slice(start, end))],
}

const api: Handler = router({
  'GET /records': ndjsonDownload({ records: () => [{ id: 1 }, { id: 2 }], codings: [] }),
  'GET /stream': () => stream(200, pieces(), { 'content-type': 'text/plain' }),
  'GET|HEAD /content': content(source as never),
  'POST /echo': async ({ body }) => json(200, JSON.parse(String(await body.bytes(1000)))),
})

const hosts = {
  'node:http': serverless(toNode(api)),
  'Express': serverless(express().use(toNode(api)) as never),
}

for (const [name, invoke] of Object.entries(hosts)) {
  const ask = async (path: string, httpMethod = 'GET', more: object = {}): Promise<LambdaResponse> => (
    await within(invoke({ httpMethod, path, headers: {}, ...more }, {})) as LambdaResponse
  )

  describe(`Lambda by serverless-http, ${name}`, () => {
    test('an NDJSON download ends', async () => {
      const { statusCode, body } = await ask('/records')
      assert.deepEqual([statusCode, body], [200, '{"id":1}\n{"id":2}\n'])
    })

    test('a stream of several pieces ends', async () => {
      const { statusCode, body } = await ask('/stream')
      assert.deepEqual([statusCode, body], [200, large])
    })

    test('content is sent whole and in part', async () => {
      assert.equal((await ask('/content')).body, large)
      const part = await ask('/content', 'GET', { headers: { range: 'bytes=1-99999' } })
      assert.deepEqual([part.statusCode, part.body.length], [206, 99_999])
    })

    test('a body is read, and a response without a stream is sent', async () => {
      const headers = { 'content-type': 'application/json', 'content-length': '7' }
      const { statusCode, body } = await ask('/echo', 'POST', { headers, body: '{"a":1}' })
      assert.deepEqual([statusCode, body], [200, '{"a":1}'])
    })
  })
}
