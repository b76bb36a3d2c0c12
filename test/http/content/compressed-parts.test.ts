// Middleware that compresses responses, before content that is served in parts.
import assert from 'node:assert/strict'
import { createServer } from 'node:http'
import { describe, test } from 'node:test'
import { getRequestListener } from '@hono/node-server'
import compression from 'compression'
import express from 'express'
import { Hono } from 'hono'
import { compress } from 'hono/compress'
import { content } from 'longhaul/content'
import { toFetch } from 'longhaul/fetch'
import { toNode } from 'longhaul/node'
import { listen } from '../../kit/listen.js'

const text = Buffer.from('The quick brown fox jumps over the lazy dog. '.repeat(1000))
const source = {
  size: text.byteLength, type: 'text/plain', etag: '"a"',
  open: async function* (start: number, end: number) { yield text.subarray(start, end) },
}

const apps = {
  'compression of Express': (cacheControl: string) => (
    createServer(express().use(compression(), toNode(content(source, { cacheControl }))))
  ),
  'compress of Hono': (cacheControl: string) => {
    const handle = toFetch(content(source, { cacheControl }))
    const app = new Hono().use(compress()).get('/', (c) => handle(c.req.raw))
    return createServer(getRequestListener(app.fetch))
  },
}

for (const [name, start] of Object.entries(apps)) {
  describe(name, () => {
    for (const range of ['bytes=1000-30999', 'bytes=0-9999, 20000-29999']) {
      test(`${range} is sent without compression, with no-transform`, async (t) => {
        const server = await listen(start('public, max-age=60'))
        t.after(() => server.close())
        const part = await fetch(server.url, { headers: { range, 'accept-encoding': 'gzip' } })
        assert.equal(part.status, 206)
        assert.equal(part.headers.get('content-encoding'), null)
        assert.equal(part.headers.get('cache-control'), 'public, max-age=60, no-transform')
        const bytes = Buffer.from(await part.arrayBuffer())
        assert.equal(String(bytes.byteLength), part.headers.get('content-length'))
        assert.ok(bytes.includes(text.subarray(20_000, 29_999)))
      })
    }

    test('a whole response is still compressed', async (t) => {
      const server = await listen(start('public, max-age=60'))
      t.after(() => server.close())
      const whole = await fetch(server.url, { headers: { 'accept-encoding': 'gzip' } })
      assert.deepEqual([whole.status, whole.headers.get('content-encoding')], [200, 'gzip'])
      assert.equal(whole.headers.get('cache-control'), 'public, max-age=60')
      assert.deepEqual(Buffer.from(await whole.arrayBuffer()), text)
    })

    test('no-transform of the application is not repeated', async (t) => {
      const server = await listen(start('No-Transform, private'))
      t.after(() => server.close())
      const part = await fetch(server.url, { headers: { range: 'bytes=0-9' } })
      assert.equal(part.headers.get('cache-control'), 'No-Transform, private')
      await part.arrayBuffer()
    })
  })
}
