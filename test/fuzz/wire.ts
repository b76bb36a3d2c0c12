// Shapes that two readers of one connection may take for different things, slow and broken ones
// too, to a server that is attached to node:http.
import assert from 'node:assert/strict'
import { createServer, type Server } from 'node:http'
import type { AddressInfo } from 'node:net'
import fc from 'fast-check'
import { attach } from '../../adapters/node/index.js'
import { readBytes } from '../../src/http/body/body.js'
import { httpError } from '../../src/http/errors.js'
import type { Handler, HttpRequest } from '../../src/http/exchange.js'
import { json, stream } from '../../src/http/respond.js'
import { router } from '../../src/resources/router.js'
import { answersIn, send, type RawAnswer } from './frame/answers.js'

const HEADERS_MS = 400
/** What the handlers have seen. */
let seen: string[] = []
const heard: unknown[] = []
let server: Server
let port = 0

const note = <C>(handler: Handler<C>): Handler<C> => (request: HttpRequest<C>) => {
  seen.push(`${request.method} ${request.path}`)
  return handler(request)
}
const handler = router({
  '* /echo': note(async (request) =>
    json(200, {
      method: request.method,
      n: request.query.get('n'),
      body: Buffer.from(await readBytes(request, { maxBodyBytes: 10_000 })).toString('latin1'),
    }),
  ),
  'GET /slow': note(async (request) => {
    await new Promise((resolve) => {
      setTimeout(resolve, 15)
    })
    return json(200, { n: request.query.get('n') })
  }),
  'GET /fails': note((request) => {
    throw httpError('conflict', { members: { n: request.query.get('n') } })
  }),
  'GET /stream': note((request) =>
    stream(
      200,
      (async function* () {
        yield 'a'
        await new Promise(setImmediate)
        yield `n=${request.query.get('n') ?? ''}`
      })(),
      { 'content-type': 'text/plain' },
    ),
  ),
  'POST /unread': note((request) => json(200, { n: request.query.get('n') })),
  'GET /x/{id}': note((request) => json(200, { n: request.params['id'] })),
})

export async function start(): Promise<void> {
  server = createServer({
    headersTimeout: HEADERS_MS,
    requestTimeout: HEADERS_MS,
    connectionsCheckingInterval: 20,
    keepAliveTimeout: 200,
  })
  attach(server, handler, { onError: (error) => { heard.push(error) } })
  await new Promise<void>((resolve) => { server.listen(0, '127.0.0.1', resolve) })
  port = (server.address() as AddressInfo).port
}

export async function stop(): Promise<void> {
  server.closeAllConnections()
  await new Promise((resolve) => { server.close(resolve) })
}

const H = 'Host: a\r\n'
const SMUGGLED = 'GET /x/smuggled HTTP/1.1\r\nHost: a\r\n\r\n'
const post = (...fields: string[]): string =>
  `POST /echo HTTP/1.1\r\n${H}${fields.map((field) => `${field}\r\n`).join('')}\r\n`
/**
 * Which statuses may come back, in order; the last one closes the connection where `closes`.
 * Nothing smuggled may ever be seen by a handler.
 */
const SHAPES: Readonly<
  Record<
    string,
    { readonly text: string; readonly statuses: readonly (readonly number[])[]; readonly smuggled?: boolean }
  >
> = {
  'CL and TE': {
    text: `${post('Content-Length: 5', 'Transfer-Encoding: chunked')}0\r\n\r\n${SMUGGLED}`,
    statuses: [[400]],
  },
  'TE and CL': {
    text: `${post('Transfer-Encoding: chunked', 'Content-Length: 5')}0\r\n\r\n${SMUGGLED}`,
    statuses: [[400]],
  },
  'two lengths that differ': {
    text: `${post('Content-Length: 0', 'Content-Length: 36')}${SMUGGLED}`,
    statuses: [[400]],
  },
  'two lengths that are the same': {
    text: `${post('Content-Length: 36', 'Content-Length: 36')}${SMUGGLED}`,
    statuses: [[400]],
  },
  'a list of lengths': { text: `${post('Content-Length: 36, 36')}${SMUGGLED}`, statuses: [[400]] },
  'a length with a sign': { text: `${post('Content-Length: +36')}${SMUGGLED}`, statuses: [[400]] },
  'a length below 0': { text: `${post('Content-Length: -1')}${SMUGGLED}`, statuses: [[400]] },
  'a length in hexadecimal': { text: `${post('Content-Length: 0x24')}${SMUGGLED}`, statuses: [[400]] },
  'a length that overflows': { text: `${post('Content-Length: 18446744073709551617')}x`, statuses: [[400, 413]] },
  'a length that is huge': { text: post('Content-Length: 9007199254740993'), statuses: [[413]] },
  'an empty length': { text: `${post('Content-Length: ')}${SMUGGLED}`, statuses: [[400]] },
  'a coding that is none': { text: `${post('Transfer-Encoding: xchunked')}0\r\n\r\n${SMUGGLED}`, statuses: [[400]] },
  'chunked that is not last': {
    text: `${post('Transfer-Encoding: chunked, identity')}0\r\n\r\n${SMUGGLED}`,
    statuses: [[400]],
  },
  'chunked twice': {
    text: `${post('Transfer-Encoding: chunked', 'Transfer-Encoding: chunked')}0\r\n\r\n${SMUGGLED}`,
    statuses: [[400]],
  },
  'a tab before chunked': { text: `${post('Transfer-Encoding:\tchunked')}0\r\n\r\n`, statuses: [[200, 400]] },
  'a vertical tab before chunked': {
    text: `${post('Transfer-Encoding:\x0bchunked')}0\r\n\r\n${SMUGGLED}`,
    statuses: [[400]],
  },
  'a space before the colon': { text: `${post('Content-Length : 36')}${SMUGGLED}`, statuses: [[400]] },
  'a space before the colon of TE': {
    text: `${post('Transfer-Encoding : chunked')}0\r\n\r\n${SMUGGLED}`,
    statuses: [[400]],
  },
  'a folded line': { text: `${post('X: a', ' b: c')}`, statuses: [[400]] },
  'a folded length': { text: `${post('Content-Length:', ' 36')}${SMUGGLED}`, statuses: [[400]] },
  'a folded TE': { text: `${post('Transfer-Encoding:', ' chunked')}0\r\n\r\n${SMUGGLED}`, statuses: [[400]] },
  'a line of spaces first': { text: `POST /echo HTTP/1.1\r\n ${H}\r\n`, statuses: [[400]] },
  'bare line feeds': { text: `POST /echo HTTP/1.1\nHost: a\nContent-Length: 36\n\n${SMUGGLED}`, statuses: [[400]] },
  'a bare line feed in a field': {
    text: `POST /echo HTTP/1.1\r\n${H}X: a\nContent-Length: 36\r\n\r\n${SMUGGLED}`,
    statuses: [[400]],
  },
  'a bare carriage return in a field': {
    text: `POST /echo HTTP/1.1\r\n${H}X: a\rContent-Length: 36\r\n\r\n${SMUGGLED}`,
    statuses: [[400]],
  },
  'a NUL in a field': { text: `${post('X: a\0b')}`, statuses: [[400]] },
  'a NUL in a name': { text: `${post('X\0: b')}`, statuses: [[400]] },
  'an empty name': { text: `${post(': b')}`, statuses: [[400]] },
  'no colon': { text: post('nonsense'), statuses: [[400]] },
  'two hosts': { text: `GET /x/1 HTTP/1.1\r\n${H}Host: b\r\n\r\n`, statuses: [[200, 400]] },
  'no host': { text: 'GET /x/1 HTTP/1.1\r\n\r\n', statuses: [[400]] },
  'a method in lower case': { text: `get /x/1 HTTP/1.1\r\n${H}\r\n`, statuses: [[501]] },
  'a method that is not ours': { text: `QUERY /x/1 HTTP/1.1\r\n${H}\r\n`, statuses: [[501, 405]] },
  'two spaces': { text: `GET  /x/1 HTTP/1.1\r\n${H}\r\n`, statuses: [[200, 400]] },
  'a tab for a space': { text: `GET\t/x/1 HTTP/1.1\r\n${H}\r\n`, statuses: [[400, 501]] },
  'HTTP/0.9': { text: 'GET /x/1\r\n', statuses: [[400, 408]] },
  'HTTP/1.0': { text: 'GET /x/1 HTTP/1.0\r\n\r\n', statuses: [[200]] },
  'HTTP/2': { text: `GET /x/1 HTTP/2.0\r\n${H}\r\n`, statuses: [[200, 400, 505]] },
  'the preface of HTTP/2': { text: 'PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n', statuses: [[400, 501]] },
  'a hello of TLS': { text: '\x16\x03\x01\x02\x00\x01\x00\x01\xfc\x03\x03', statuses: [[400]] },
  'a chunk': {
    text: `${post('Transfer-Encoding: chunked')}3\r\nabc\r\n0\r\n\r\n${SMUGGLED.replace('smuggled', 'next')}`,
    statuses: [[200], [200]],
  },
  'a chunk with an extension': {
    text: `${post('Transfer-Encoding: chunked')}3;a=b;c="d"\r\nabc\r\n0\r\n\r\n`,
    statuses: [[200, 400]],
  },
  'a chunk with a long extension': {
    text: `${post('Transfer-Encoding: chunked')}3;${'a'.repeat(20_000)}\r\nabc\r\n0\r\n\r\n`,
    statuses: [[413]],
  },
  'a chunk with a line feed in its extension': {
    text: `${post('Transfer-Encoding: chunked')}3;a\nabc\r\n0\r\n\r\n${SMUGGLED}`,
    statuses: [[400]],
  },
  'a chunk with a bare line feed': {
    text: `${post('Transfer-Encoding: chunked')}3\nabc\n0\n\n${SMUGGLED}`,
    statuses: [[400]],
  },
  'a chunk of a huge size': {
    text: `${post('Transfer-Encoding: chunked')}ffffffffffffffffff\r\nabc`,
    statuses: [[400]],
  },
  'a chunk of a large size': {
    text: `${post('Transfer-Encoding: chunked')}ffffffff\r\nabc`,
    statuses: [[400, 408, 413]],
  },
  'a chunk of a size that is none': { text: `${post('Transfer-Encoding: chunked')}xyz\r\nabc`, statuses: [[400]] },
  'a chunk of a negative size': { text: `${post('Transfer-Encoding: chunked')}-1\r\nabc`, statuses: [[400]] },
  'a chunk that is too long': {
    text: `${post('Transfer-Encoding: chunked')}2\r\nabc\r\n0\r\n\r\n${SMUGGLED}`,
    statuses: [[400]],
  },
  'trailers that mean to be fields': {
    text: `${post('Transfer-Encoding: chunked')}0\r\nContent-Length: 36\r\nHost: b\r\n\r\n`,
    statuses: [[200, 400]],
  },
  'a body for GET': { text: `GET /x/1 HTTP/1.1\r\n${H}Content-Length: 37\r\n\r\n${SMUGGLED}`, statuses: [[200]] },
  'a body that nobody reads': {
    text: `POST /unread?n=1 HTTP/1.1\r\n${H}Content-Length: ${SMUGGLED.length}\r\n\r\n${SMUGGLED}`,
    statuses: [[200]],
  },
  'an upgrade': {
    text: `GET /x/1 HTTP/1.1\r\n${H}Connection: Upgrade, HTTP2-Settings\r\nUpgrade: h2c\r\nHTTP2-Settings: AAMAAABkAARAAAAAAAIAAAAA\r\n\r\n`,
    statuses: [[200]],
  },
  'a flood of fields': { text: `GET /x/1 HTTP/1.1\r\n${H}${'Abcd: efgh\r\n'.repeat(5000)}\r\n`, statuses: [[431]] },
  'a long field': { text: `GET /x/1 HTTP/1.1\r\n${H}A: ${'b'.repeat(30_000)}\r\n\r\n`, statuses: [[431]] },
  'a long target': { text: `GET /x/${'b'.repeat(30_000)} HTTP/1.1\r\n${H}\r\n`, statuses: [[431, 414]] },
  'absolute form': { text: `GET http://other.example/x/1?n=2 HTTP/1.1\r\n${H}\r\n`, statuses: [[200]] },
  'absolute form of another scheme': {
    text: `GET ftp://other.example/x/1 HTTP/1.1\r\n${H}\r\n`,
    statuses: [[200, 400, 404]],
  },
  'asterisk form': { text: `OPTIONS * HTTP/1.1\r\n${H}\r\n`, statuses: [[200]] },
  'asterisk form of GET': { text: `GET * HTTP/1.1\r\n${H}\r\n`, statuses: [[400, 404]] },
  'authority form': { text: 'CONNECT example.com:443 HTTP/1.1\r\nHost: example.com\r\n\r\n', statuses: [[501]] },
  'a target without a slash': { text: `GET x/1 HTTP/1.1\r\n${H}\r\n`, statuses: [[400, 404]] },
  'a fragment in the target': { text: `GET /x/1#frag HTTP/1.1\r\n${H}\r\n`, statuses: [[200, 400]] },
  'an encoded slash': { text: `GET /x/a%2Fb HTTP/1.1\r\n${H}\r\n`, statuses: [[200]] },
  'an encoded NUL': { text: `GET /x/a%00b HTTP/1.1\r\n${H}\r\n`, statuses: [[400]] },
  'encoded dots': { text: `GET /x/%2e%2e HTTP/1.1\r\n${H}\r\n`, statuses: [[400]] },
  'dot segments': { text: `GET /x/../x/1 HTTP/1.1\r\n${H}\r\n`, statuses: [[404]] },
  'a bad escape': { text: `GET /x/%zz HTTP/1.1\r\n${H}\r\n`, statuses: [[400]] },
  'bytes that are not UTF-8, escaped': { text: `GET /x/%ff HTTP/1.1\r\n${H}\r\n`, statuses: [[400]] },
  'bytes above ASCII in the target': { text: `GET /x/\xff\xfe HTTP/1.1\r\n${H}\r\n`, statuses: [[200, 400]] },
  'two slashes first': { text: `GET //x/1 HTTP/1.1\r\n${H}\r\n`, statuses: [[404]] },
  'a body that stops': { text: `${post('Content-Length: 10')}abc`, statuses: [[400, 408]] },
  'a head that stops': { text: `GET /x/1 HTTP/1.1\r\n${H}X: `, statuses: [[400, 408]] },
  'chunks that stop': { text: `${post('Transfer-Encoding: chunked')}5\r\nab`, statuses: [[400, 408]] },
  'an expectation that nobody meets': { text: `GET /x/1 HTTP/1.1\r\n${H}Expect: tea\r\n\r\n`, statuses: [[417]] },
}
const NAMES = Object.keys(SHAPES)
/** How many slow ones a round has: they take half a second each. */
const STOPS = new Set(
  NAMES.filter((name) => name.endsWith('stops') || name.endsWith('stop') || name.includes('large size')),
)

function pieces(text: string, cuts: readonly number[]): string[] {
  const found: string[] = []
  for (let at = 0, turn = 0; at < text.length; turn++) {
    const size = found.length > 12 ? text.length : cuts[turn % cuts.length] as number
    found.push(text.slice(at, at + size))
    at += size
  }
  return found
}

function told({ status, headers, body, whole }: RawAnswer): void {
  assert.ok(status < 500 || status === 501 || status === 505, `${status} ${body}`)
  assert.ok(headers.has('date'))
  if (status < 400) return
  assert.ok(whole)
  // Node refuses a request without Host before anybody hears of it, and says nothing.
  if (status === 400 && body === '' && headers.get('connection') === 'close') return
  const { error, code } = JSON.parse(body) as Record<string, unknown>
  assert.ok(typeof error === 'string' && typeof code === 'string', body)
}

const cuts = fc.array(fc.integer({ min: 1, max: 60 }), { minLength: 1, maxLength: 3 })

/** Requests that may stand behind one another, with what has to come back. */
const KINDS: readonly ((n: number) => {
  readonly text: string
  readonly status: number
  readonly shows: string
  readonly head?: boolean
})[] = [
  (n) => ({ text: `GET /slow?n=${n} HTTP/1.1\r\n${H}\r\n`, status: 200, shows: `"n":"${n}"` }),
  (n) => ({ text: `GET /x/${n} HTTP/1.1\r\n${H}\r\n`, status: 200, shows: `"n":"${n}"` }),
  (n) => ({ text: `GET /fails?n=${n} HTTP/1.1\r\n${H}\r\n`, status: 409, shows: `"n":"${n}"` }),
  (n) => ({ text: `GET /stream?n=${n} HTTP/1.1\r\n${H}\r\n`, status: 200, shows: `an=${n}` }),
  (n) => ({
    text: `POST /echo?n=${n} HTTP/1.1\r\n${H}Content-Length: 4\r\n\r\nbody`,
    status: 200,
    shows: `"n":"${n}","body":"body"`,
  }),
  (n) => ({
    text: `POST /echo?n=${n} HTTP/1.1\r\n${H}Transfer-Encoding: chunked\r\n\r\n3\r\nabc\r\n0\r\n\r\n`,
    status: 200,
    shows: `"n":"${n}","body":"abc"`,
  }),
  (n) => ({
    text: `POST /unread?n=${n} HTTP/1.1\r\n${H}Content-Length: ${SMUGGLED.length}\r\n\r\n${SMUGGLED}`,
    status: 200,
    shows: `"n":"${n}"`,
  }),
  (n) => ({ text: `GET /nowhere/${n} HTTP/1.1\r\n${H}\r\n`, status: 404, shows: 'not_found' }),
  (n) => ({ text: `HEAD /x/${n} HTTP/1.1\r\n${H}\r\n`, status: 200, shows: '', head: true }),
]

export const rules = {
  'a shape is answered as it should be, however it is cut, and nothing is smuggled': fc.asyncProperty(
    fc.constantFrom(...NAMES.filter((name) => !STOPS.has(name))),
    cuts,
    fc.boolean(),
    async (name, sizes, alone) => {
      await shaped(name, alone ? [SHAPES[name]?.text ?? ''] : pieces(SHAPES[name]?.text ?? '', sizes))
    },
  ),
  'what is slow or stops ends in time, and keeps nobody': fc.asyncProperty(
    fc.constantFrom(...STOPS),
    cuts,
    fc.boolean(),
    async (name, sizes, end) => {
      const began = Date.now()
      const [, { text }] = await Promise.all([
        shaped(name, pieces(SHAPES[name]?.text ?? '', sizes), end),
        send(port, { writes: [`GET /x/1 HTTP/1.1\r\n${H}Connection: close\r\n\r\n`], patience: 5000 }),
      ])
      assert.deepEqual(
        answersIn(text).map(({ status }) => status),
        [200],
      )
      assert.ok(Date.now() - began < 8000)
    },
  ),
  'answers come in the order of the requests, each its own': fc.asyncProperty(
    fc.array(fc.nat(KINDS.length - 1), { minLength: 1, maxLength: 6 }),
    cuts,
    async (kinds, sizes) => {
      const requests = kinds.map((kind, n) => (KINDS[kind] as (typeof KINDS)[number])(n))
      seen = []
      const isHead = (index: number): boolean => requests[index]?.head === true
      const { text } = await send(port, {
        writes: pieces(requests.map((request) => request.text).join(''), sizes),
        patience: 5000,
        enough: (soFar) => answersIn(soFar, isHead).filter(({ whole }) => whole).length === requests.length,
      })
      const answers = answersIn(text, isHead)
      assert.deepEqual(
        answers.map(({ status }) => status),
        requests.map(({ status }) => status),
      )
      answers.forEach(({ body, whole }, at) => {
        assert.ok(whole && body.includes(requests[at]?.shows ?? ''), body)
      })
      assert.ok(!seen.some((each) => each.includes('smuggled')))
      assert.deepEqual(heard.splice(0), [])
    },
  ),
  'a client that goes in the middle harms nobody': fc.asyncProperty(
    fc.constantFrom(...NAMES),
    fc.nat(400),
    fc.boolean(),
    async (name, at, end) => {
      const text = SHAPES[name]?.text ?? ''
      await send(port, { writes: [text.slice(0, at % (text.length + 1))], end, patience: 3 })
      assert.deepEqual(heard.splice(0), [])
    },
  ),
}

async function shaped(name: string, writes: readonly string[], end = false): Promise<void> {
  const { statuses } = SHAPES[name] ?? { statuses: [] }
  seen = []
  // What follows must find a server that listens: on a connection that was closed it counts for nothing.
  const { text, closed } = await send(port, {
    writes,
    end,
    patience: 8000,
    enough: (soFar) => {
      try {
        return answersIn(soFar).filter(({ whole }) => whole).length >= statuses.length
      } catch {
        return true
      }
    },
  })
  const answers = answersIn(text)
  // A client that half-closes may find that nobody answers what it left off.
  if (!(end && answers.length === 0)) {
    assert.ok(answers.length >= statuses.length || closed, `${name}: no answer in time`)
    assert.ok(answers.length <= statuses.length, `${name}: ${answers.length} answers`)
    answers.forEach(({ status }, at) => { assert.ok(statuses[at]?.includes(status), `${name}: ${status}`) })
    assert.ok(answers.length === statuses.length || closed, name)
  }
  for (const answer of answers) told(answer)
  assert.ok(!seen.some((each) => each.includes('smuggled')), name)
  assert.deepEqual(heard.splice(0), [], name)
}
