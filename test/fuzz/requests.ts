// Whole requests with something wrong in them, to the reference server: what it answers has to be
// what its own document says.
import assert from 'node:assert/strict'
import fc from 'fast-check'
import { parseTokens } from '../../examples/reference-server/auth.js'
import { startServer, type RunningServer } from '../../examples/reference-server/server.js'
import { AnswerWatch } from '../http/kit/openapi-watch.js'
import { answersIn, send } from './frame/answers.js'
import { mutated } from './frame/mutate.js'

interface Request {
  readonly method: string
  readonly path: string
  readonly headers: Readonly<Record<string, string>>
  readonly body: string
}

const WRITER = { authorization: 'Bearer writer-1' }
const JSON_TYPE = { 'content-type': 'application/json' }
const USER = '{"email":"ann@example.com","name":"Ann"}'
const EXAMPLES: readonly Request[] = [
  { method: 'GET', path: '/', headers: {}, body: '' },
  {
    method: 'GET',
    path: '/api/users?batch_size=5&start=0',
    headers: { ...WRITER, 'range': 'items=0-4', 'if-none-match': '"a"' },
    body: '',
  },
  { method: 'POST', path: '/api/users', headers: { ...WRITER, ...JSON_TYPE }, body: USER },
  { method: 'PUT', path: '/api/users/1', headers: { ...WRITER, ...JSON_TYPE, 'if-match': '*' }, body: USER },
  {
    method: 'PATCH',
    path: '/api/users/1',
    headers: { ...WRITER, 'content-type': 'application/merge-patch+json', 'prefer': 'return=minimal' },
    body: '{"name":"B","profile":null}',
  },
  {
    method: 'DELETE',
    path: '/api/users/1',
    headers: { ...WRITER, 'if-unmodified-since': 'Sun, 06 Nov 1994 08:49:37 GMT' },
    body: '',
  },
  {
    method: 'POST',
    path: '/api/users/bulk?only=failed',
    headers: { ...WRITER, ...JSON_TYPE, 'idempotency-key': '"k"' },
    body: `[${USER},{"email":"x"}]`,
  },
  {
    method: 'PATCH',
    path: '/api/users/bulk-update',
    headers: { ...WRITER, ...JSON_TYPE },
    body: '{"updates":[{"id":1,"name":"C"}]}',
  },
  {
    method: 'POST',
    path: '/api/long-running-task',
    headers: { ...WRITER, ...JSON_TYPE, 'prefer': 'respond-async, wait=1', 'idempotency-key': 'abc' },
    body: '{"task":"report","data":{"month":"2026-10"},"callbackUrl":"https://example.com/x"}',
  },
  { method: 'POST', path: '/start-job', headers: { ...WRITER, ...JSON_TYPE }, body: '{"jobType":"export","data":{}}' },
  { method: 'POST', path: '/start-task', headers: { ...WRITER, ...JSON_TYPE, prefer: 'respond-async' }, body: '{}' },
  {
    method: 'GET',
    path: '/api/status/V1StGXR8_Z5jdHi6B-myTw',
    headers: { ...WRITER, 'accept': 'text/event-stream', 'last-event-id': '3' },
    body: '',
  },
  { method: 'DELETE', path: '/job-status/x', headers: WRITER, body: '' },
  { method: 'GET', path: '/api/status/x/items', headers: WRITER, body: '' },
  {
    method: 'POST',
    path: '/upload-ndjson',
    headers: {
      ...WRITER,
      'content-type': 'application/x-ndjson',
      'prefer': 'return=minimal',
      'accept': 'application/x-ndjson',
    },
    body: `${USER}\n{"x":1}\n`,
  },
  {
    method: 'GET',
    path: '/bulk-data',
    headers: { ...WRITER, 'accept': 'application/x-ndjson', 'accept-encoding': 'gzip' },
    body: '',
  },
  {
    method: 'GET',
    path: '/api/files/large-file',
    headers: { ...WRITER, 'range': 'bytes=0-9, 20-29', 'if-range': '"x"' },
    body: '',
  },
  {
    method: 'GET',
    path: '/v1/users?version=1',
    headers: { ...WRITER, accept: 'application/vnd.example.v1+json' },
    body: '',
  },
  {
    method: 'OPTIONS',
    path: '/api/users',
    headers: {
      'origin': 'https://a.example',
      'access-control-request-method': 'PUT',
      'access-control-request-headers': 'x',
    },
    body: '',
  },
  { method: 'HEAD', path: '/openapi.json', headers: { accept: 'application/problem+json' }, body: '' },
]
const METHODS = ['GET', 'HEAD', 'POST', 'PUT', 'PATCH', 'DELETE', 'OPTIONS', 'TRACE', 'QUERY', 'BREW', 'get']
const PATHS = EXAMPLES.map(({ path }) => path)
const FIELDS: Readonly<Record<string, readonly string[]>> = {
  'authorization': ['Bearer writer-1', 'Bearer admin-1', 'Basic YTpi', 'Bearer x'],
  'accept': ['*/*', 'application/problem+json', 'text/event-stream', 'application/x-ndjson;q=0'],
  'accept-encoding': ['gzip', 'br;q=0.5', 'identity;q=0'],
  'prefer': ['respond-async', 'wait=0', 'return=minimal', 'handling=strict'],
  'range': ['bytes=0-1', 'items=5-', 'bytes=-1'],
  'if-match': ['*', '"a"'],
  'if-none-match': ['*', 'W/"a"'],
  'if-modified-since': ['Sun, 06 Nov 2094 08:49:37 GMT'],
  'if-range': ['"a"'],
  'content-type': ['application/json', 'text/plain', 'application/x-ndjson'],
  'content-encoding': ['gzip', 'identity', 'br'],
  'idempotency-key': ['"a"', 'b'],
  'origin': ['https://a.example', 'null'],
  'expect': ['100-continue'],
  'last-event-id': ['1', 'x'],
  'host': ['a', ''],
  'x-forwarded-for': ['1.2.3.4'],
  'te': ['trailers'],
  'cookie': ['a=b; c'],
  'connection': ['keep-alive', 'close'],
  'x-request-id': ['r'],
}

const field = fc
  .constantFrom(...Object.entries(FIELDS))
  .chain(([name, values]) => fc.tuple(fc.constant(name), mutated(values)))
const request = fc
  .tuple(fc.constantFrom(...EXAMPLES), fc.array(field, { maxLength: 3 }), fc.nat(9), fc.constantFrom(...METHODS))
  .chain(([example, fields, what, method]) =>
    fc
      .record({
        path: what < 3 ? mutated([example.path, ...PATHS]) : fc.constant(example.path),
        body: what < 7 ? mutated([example.body]) : fc.constant(example.body),
      })
      .map(({ path, body }): Request => ({
        method: what === 9 ? method : example.method,
        path,
        body,
        headers: { host: 'a', ...example.headers, ...Object.fromEntries(fields) },
      })),
  )

let server: RunningServer
let watch: AnswerWatch
let port = 0
const heard: string[] = []
const listen = (warning: Error): void => {
  if (warning.name === 'LonghaulError') heard.push(warning.stack ?? warning.message)
}

export async function start(): Promise<void> {
  process.on('warning', listen)
  server = await startServer({
    host: '127.0.0.1',
    port: 0,
    tokens: parseTokens('writer-1=will:writer,admin-1=ada:admin'),
    rateLimit: 1_000_000_000,
    drainMs: 10,
  })
  port = Number(new URL(server.url).port)
  watch = await AnswerWatch.of(server.url)
}

export async function stop(): Promise<void> {
  await server.stop()
  await watch.stop()
  process.off('warning', listen)
}

/** More requests in one are the matter of wire.ts. */
const oneLine = (text: string): string => text.replaceAll(/[\r\n]/g, ' ')

/** As soon as there is a whole answer. */
const enough = (isHead: boolean) => (text: string): boolean => {
  try {
    const [first] = answersIn(text, () => isHead)
    return (
      first?.whole === true && (first.headers.has('content-length') || first.headers.has('transfer-encoding') || isHead)
    )
  } catch {
    return true
  }
}

export const rules = {
  'whatever is asked, the answer is what the document says, and never a 5xx': fc.asyncProperty(
    request,
    async ({ method, path, headers, body }) => {
      const bytes = Buffer.from(body)
      const lines = Object.entries({ ...headers, ...(body !== '' && { 'content-length': String(bytes.length) }) })
        .map(([name, value]) => `${name}: ${oneLine(value)}\r\n`)
        .join('')
      const { text } = await send(port, {
        writes: [Buffer.concat([Buffer.from(`${method} ${oneLine(path)} HTTP/1.1\r\n${lines}\r\n`, 'latin1'), bytes])],
        enough: enough(method === 'HEAD'),
        patience: 150,
      })
      // What never became a request was no HEAD either.
      const answers = answersIn(
        text,
        () => method === 'HEAD' && !/^HTTP\/1.1 4(?:00|31) [^]*\r\nconnection: close\r\n/.test(text),
      )
      for (const { status, headers: told, body: sent, whole } of answers) {
        assert.ok(status < 500 || status === 501, `${status} ${sent.slice(0, 200)}`)
        if (status >= 400 && whole && method !== 'HEAD' && sent !== '') {
          const error = JSON.parse(Buffer.from(sent, 'latin1').toString()) as Record<string, unknown>
          assert.ok(typeof error['error'] === 'string' && typeof error['code'] === 'string')
          assert.match(told.get('content-type') ?? '', /^application\/(?:problem\+)?json$/)
        }
      }
      assert.deepEqual(heard.splice(0), [], 'failures that only a host would have')
      // It compares once the answer has gone out.
      await new Promise(setImmediate)
      const faults = [...watch.faults]
      watch.faults.clear()
      assert.deepEqual(faults, [], 'answers that are not what /openapi.json says')
    },
  ),
}
