// Uploads that end early: `maxLines` is exact, and the response reports every record that was written.
import assert from 'node:assert/strict'
import { createServer } from 'node:http'
import { after, before, beforeEach, describe, test } from 'node:test'
import { gzipSync } from 'node:zlib'
import { compose, createTasks, router, taskEndpoints } from 'longhaul'
import { memory } from 'longhaul/memory'
import { ndjsonUpload } from 'longhaul/ndjson'
import { attach } from 'longhaul/node'
import { timeouts } from 'longhaul/policies'
import { listen, type Listening } from '../../kit/listen.js'
import { ask, eventually, Wire } from '../kit/wire.js'

interface Item { readonly id: number }
interface Body {
  readonly code?: string
  readonly summary?: { readonly total: number, readonly succeeded: number, readonly failed: number }
}

const MAX_LINES = 7000
const text = (from: number, to: number): string => (
  Array.from({ length: to - from }, (_, at) => `{"id":${from + at}}\n`).join('')
)
const bodies = { identity: Buffer.from(text(0, 100_000)), gzip: gzipSync(text(0, 100_000)) }

describe('an upload that ends early', () => {
  const seen: number[] = []
  let release: (() => void) | undefined
  let held = false
  const { engine, store, blobs } = memory()
  const write = async (items: readonly Item[]): Promise<void> => {
    if (items.some(({ id }) => id === -1)) throw new Error('the database is gone')
    if (items.some(({ id }) => id === -2)) {
      held = true
      await new Promise<void>((resolve) => { release = resolve })
    }
    seen.push(...items.map(({ id }) => id))
  }
  const limited = ndjsonUpload<Item>({
    write,
    maxLines: MAX_LINES,
    background: { name: 'limited', blobs, attempts: 1 },
  })
  const one = ndjsonUpload<Item>({ write, maxLines: 1 })
  const plain = ndjsonUpload<Item>({ write, background: { name: 'plain', blobs, attempts: 1, timeoutMs: 300 } })
  const tasks = createTasks({ engine, store, definitions: [limited.task, plain.task], onError: () => undefined })
  const endpoints = taskEndpoints(tasks, { statusPath: '/status/{id}', owner: 'anyone' })
  let server: Listening

  before(async () => {
    const http = createServer()
    attach(http, router({
      'POST /limited': limited.handler(endpoints),
      'POST /one': one,
      'POST /plain': plain.handler(endpoints),
      'POST /timed': compose(timeouts({ runMs: 300 }), plain.handler(endpoints)),
      'POST /read-timed': compose(timeouts({ readMs: 300 }), plain.handler(endpoints)),
      'GET|HEAD|DELETE /status/{id}': endpoints.status,
    }), { onError: () => undefined })
    server = await listen(http)
  })
  after(async () => {
    await tasks.close()
    await server.close()
    await blobs.close()
    await store.close()
  })
  beforeEach(() => {
    seen.length = 0
    held = false
  })

  const post = async (path: string, body: string | Buffer, headers: Record<string, string> = {}) => {
    const response = await ask(server.port, 'POST', path, {
      headers: { 'content-type': 'application/x-ndjson', ...headers }, body,
    })
    return { ...response, text: response.body }
  }
  const json = ({ body }: { readonly body: string }): Body => JSON.parse(body) as Body
  const all = (count: number) => ({ total: count, succeeded: count, failed: 0 })
  const numbers = (count: number) => Array.from({ length: count }, (_, at) => at)

  for (const [coding, body] of Object.entries(bodies)) {
    test(`has written exactly the lines up to maxLines, in ${coding}`, async () => {
      const response = await post('/limited', body, { 'content-encoding': coding })
      assert.deepEqual([response.status, json(response).code], [413, 'body_too_large'])
      assert.deepEqual(json(response).summary, all(MAX_LINES))
      assert.deepEqual(seen, numbers(MAX_LINES))
    })

    test(`has written one line with maxLines: 1, in ${coding}`, async () => {
      const response = await post('/one', body, { 'content-encoding': coding })
      assert.deepEqual([response.status, json(response).summary, seen], [413, all(1), [0]])
    })

    test(`says in the background how many lines up to maxLines it has written, in ${coding}`, async () => {
      const { headers } = await post('/limited', body, { 'content-encoding': coding, prefer: 'respond-async' })
      const status = await ask(server.port, 'GET', headers.location as string, { headers: { prefer: 'wait=20' } })
      const { error, progress } = JSON.parse(status.body) as {
        error: { code: string, message: string }, progress: { message: string }
      }
      assert.equal(error.code, 'body_too_large')
      assert.match(error.message, new RegExp(`Read ${MAX_LINES} records: ${MAX_LINES} succeeded`))
      assert.match(progress.message, new RegExp(`Read ${MAX_LINES} records`))
      assert.deepEqual(seen, numbers(MAX_LINES))
    })

    test(`streams a line for each record up to maxLines, in ${coding}`, async () => {
      const response = await post('/limited', body, { 'content-encoding': coding, accept: 'application/x-ndjson' })
      const lines = response.body.trim().split('\n').map((line) => JSON.parse(line) as Body & { line?: number })
      assert.deepEqual(lines.slice(0, -1).map(({ line }) => line), numbers(MAX_LINES).map((at) => at + 1))
      assert.deepEqual([lines.at(-1)?.code, lines.at(-1)?.summary], ['body_too_large', all(MAX_LINES)])
      assert.deepEqual(seen, numbers(MAX_LINES))
    })

    test(`is written once with maxLines and an Idempotency-Key, in ${coding}`, async () => {
      // Above 1 MiB as sent: pads that do not compress.
      const pad = Array.from(
        { length: 20_000 },
        (_, id) => `{"id":${id},"pad":"${String(Math.random()).repeat(20)}"}\n`,
      ).join('')
      for (const lines of [text(0, 8000), pad]) {
        seen.length = 0
        const whole = coding === 'gzip' ? gzipSync(lines, { level: 0 }) : Buffer.from(lines)
        const headers = { 'content-encoding': coding, 'idempotency-key': `"${coding} ${whole.length}"` }
        const first = await post('/limited', whole, headers)
        assert.deepEqual([first.status, json(first).summary, seen], [413, all(MAX_LINES), numbers(MAX_LINES)])
        const again = await post('/limited', whole, headers)
        assert.deepEqual([again.status, again.headers['idempotent-replayed'], json(again)], [413, 'true', json(first)])
        assert.equal(seen.length, MAX_LINES)
      }
    })
  }

  test('counts blank lines and a last line without a line feed as lines', async () => {
    assert.equal((await post('/one', '{"id":1}\n')).status, 200)
    assert.equal((await post('/one', '{"id":2}')).status, 200)
    const refused = []
    for (const body of ['{"id":3}\n{', '{"id":4}\n\n', '{"id":5}\n{"id":6}']) refused.push(await post('/one', body))
    assert.deepEqual(refused.map((response) => [response.status, json(response).summary]), Array(3).fill([413, all(1)]))
    assert.deepEqual(seen, [1, 2, 3, 4, 5])
  })

  test('reports what it has written before a malformed coding', async () => {
    const whole = Buffer.from(gzipSync(text(0, 100_000)))
    // The check sum.
    whole.fill(0xff, whole.length - 8, whole.length - 4)
    const response = await post('/plain', whole, { 'content-encoding': 'gzip' })
    assert.deepEqual([response.status, json(response).code], [400, 'malformed_coding'])
    assert.ok(seen.length > 0)
    assert.deepEqual(json(response).summary, all(seen.length))
  })

  test('lists the records written before the error in streamed results, even if the error is in the same chunk', async () => {
    const wire = new Wire(
      server.port,
      [
        'POST /plain HTTP/1.1', 'Host: x', 'Content-Type: application/x-ndjson',
        'Accept: application/x-ndjson', 'Connection: close', 'Transfer-Encoding: chunked', '', '',
      ].join('\r\n'),
    )
    const body = `${text(0, 500)}{"id":-1}\n`
    wire.socket.write(`${body.length.toString(16)}\r\n${body}\r\n0\r\n\r\n`)
    await wire.until(/"code":"internal_error"/)
    assert.equal(wire.text.match(/"status":200/g)?.length, 500)
    assert.equal(seen.length, 500)
  })

  test('gets a 408 with its report if its client is slower than timeouts({ readMs }) or runMs', async () => {
    for (const path of ['/read-timed', '/timed']) {
      seen.length = 0
      const wire = new Wire(
        server.port,
        `POST ${path} HTTP/1.1\r\nHost: x\r\nContent-Type: application/x-ndjson\r\nContent-Length: 1000000\r\n\r\n${text(0, 5200)}`,
      )
      await wire.until(/\r\n\r\n.*\}$/s)
      assert.match(wire.text, /^HTTP\/1.1 408 /, path)
      assert.match(wire.text, /"summary":\{"total":5000,"succeeded":5000,"failed":0\}/, path)
      assert.equal(seen.length, 5000)
      wire.socket.destroy()
    }
  })

  test('gets a 503 with its report if timeouts({ runMs }) ends a write, and writes nothing afterwards', async () => {
    const response = await post('/timed', `${text(0, 500)}${'{"id":-2}\n'.repeat(500)}${text(500, 9000)}`)
    assert.deepEqual([response.status, json(response).code, json(response).summary], [503, 'run_timeout', all(500)])
    release?.()
    await eventually(() => seen.length === 1000, 'the write that was begun has ended')
    await new Promise(setImmediate)
    assert.equal(seen.length, 1000)
  })

  test('shows its progress in the background after an error of the application or a time limit', async () => {
    for (const [id, code] of [[-1, 'task_failed'], [-2, 'task_timeout']] as const) {
      const { headers } = await post('/plain', `${text(0, 1500)}{"id":${id}}\n`, { prefer: 'respond-async' })
      const status = await ask(server.port, 'GET', headers.location as string, { headers: { prefer: 'wait=20' } })
      const { error, progress } = JSON.parse(status.body) as { error: { code: string }, progress?: { message: string } }
      assert.equal(error.code, code)
      assert.match(progress?.message ?? '', /^Read 1500 records/, code)
      release?.()
    }
    assert.ok(held)
  })
})
