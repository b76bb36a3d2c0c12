import assert from 'node:assert/strict'
import connect from 'connect'
import express from 'express'
import { type IncomingMessage, type RequestListener } from 'node:http'
import { connect as connectHttp2, createServer as createHttp2Server } from 'node:http2'
import { once } from 'node:events'
import { describe, test } from 'node:test'
import { toNode, type NodeRaw } from '../../../adapters/node/index.js'
import { DerivedRequest } from '../../../src/http/request.js'
import type { Handler, HttpRequest } from '../../../src/http/exchange.js'
import { json } from '../../../src/http/respond.js'
import { serving } from '../kit/hosts.js'
import { ask, eventually, Wire } from '../kit/wire.js'
import { listen } from '../../kit/listen.js'

const place: Handler = ({ path, mountPath, params, query }) => json(200, { path, mountPath, params, query: [...query] })

async function seen(port: number, path: string): Promise<unknown> {
  return JSON.parse((await ask(port, 'GET', path)).body)
}

describe('toNode: the location of a request', () => {
  test('is correct at the root', () => serving(toNode(place), async (port) => {
    assert.deepEqual(await seen(port, '/'), { path: '/', mountPath: '', params: {}, query: [] })
    assert.deepEqual(await seen(port, '/a?b=1&b=2?'), {
      path: '/a',
      mountPath: '',
      params: {},
      query: [
        ['b', '1'],
        ['b', '2?'],
      ],
    })
  }))

  test('is correct in absolute form, as for a proxy', () => serving(toNode(place), async (port) => {
    assert.deepEqual(await seen(port, 'http://example.org/a/b?c=1'), {
      path: '/a/b',
      mountPath: '',
      params: {},
      query: [['c', '1']],
    })
    assert.deepEqual(await seen(port, 'http://example.org?c=1'), {
      path: '/',
      mountPath: '',
      params: {},
      query: [['c', '1']],
    })
    assert.deepEqual(await seen(port, 'http://example.org'), { path: '/', mountPath: '', params: {}, query: [] })
  }))

  test('has the path * for OPTIONS *', () => serving(toNode(place), async (port) => {
    assert.deepEqual(JSON.parse((await ask(port, 'OPTIONS', '*')).body).path, '*')
  }))

  test('is correct below nested Express routers, with their parameters', () => {
    const app = express()
    const router = express.Router({ mergeParams: true })
    router.use('/inner', toNode(place))
    router.get('/files/*rest', toNode(place))
    app.use('/outer/:team', router)
    app.get('/route/:id', toNode(place))
    return serving(app as RequestListener, async (port) => {
      assert.deepEqual(await seen(port, '/outer/t%2F1/inner/x?y=1'),
        { path: '/outer/t%2F1/inner/x', mountPath: '/outer/t%2F1/inner', params: { team: 't/1' }, query: [['y', '1']] })
      assert.deepEqual(await seen(port, '/outer/t/inner'), {
        path: '/outer/t/inner',
        mountPath: '/outer/t/inner',
        params: { team: 't' },
        query: [],
      })
      assert.deepEqual(await seen(port, '/outer/t/files/a/b'),
        { path: '/outer/t/files/a/b', mountPath: '/outer/t', params: { team: 't', rest: 'a/b' }, query: [] })
      assert.deepEqual(await seen(port, '/route/7'), {
        path: '/route/7',
        mountPath: '',
        params: { id: '7' },
        query: [],
      })
    })
  })

  test('is correct below nested Connect apps', () => {
    const inner = connect().use('/b', toNode(place))
    return serving(connect().use('/a', inner), async (port) => {
      for (const [path, rest] of [['/a/b/c', ''], ['/a/b', ''], ['/a/b/', ''], ['/a/b?x=/a', '/a']]) {
        const { mountPath, path: full } = await seen(port, path as string) as { mountPath: string, path: string }
        assert.deepEqual([mountPath, full], ['/a/b', (path as string).split('?')[0]], rest)
      }
    })
  })

  test('is correct behind a proxy that removes a prefix', async () => {
    await serving(toNode(place, { mountPath: '/ext/' }), async (port) => {
      assert.deepEqual(await seen(port, '/x'), { path: '/ext/x', mountPath: '/ext', params: {}, query: [] })
      assert.deepEqual(await seen(port, '/ext/x'), { path: '/ext/x', mountPath: '/ext', params: {}, query: [] })
      assert.deepEqual(await seen(port, '/extra'), { path: '/ext/extra', mountPath: '/ext', params: {}, query: [] })
    })
    const app = express().use(
      '/api',
      toNode(place, { mountPath: (req) => `${req.headers['x-forwarded-prefix'] as string}/api` }),
    )
    await serving(app as RequestListener, async (port) => {
      const { body } = await ask(port, 'GET', '/api/x', { headers: { 'x-forwarded-prefix': '/ext' } })
      assert.deepEqual(JSON.parse(body), { path: '/ext/api/x', mountPath: '/ext/api', params: {}, query: [] })
    })
  })

  test('gets a masked 500 if the mount path function fails', () => {
    const errors: unknown[] = []
    const handle = toNode(place, {
      mountPath: () => {
        throw new Error('secret')
      },
      onError: (error) => errors.push(error),
    })
    return serving(handle, async (port) => {
      const { status, body } = await ask(port, 'GET', '/')
      assert.deepEqual([status, body.includes('secret'), String(errors[0])], [500, false, 'Error: secret'])
    })
  })

  test('takes the values of one call before those of the binding', () => {
    const handle = toNode<{ a: number }>(
      ({ path, mountPath, params, context }) => json(200, { path, mountPath, params, context }),
      { context: () => ({ a: 0 }) },
    )
    return serving(
      (req, res) => handle(req, res, { mountPath: '/m', params: { id: '1', gone: undefined }, context: { a: 1 } }),
      async (port) => {
        assert.deepEqual(await seen(port, '/x'), {
          path: '/m/x',
          mountPath: '/m',
          params: { id: '1' },
          context: { a: 1 },
        })
      },
    )
  })
})

describe('toNode: the contents of a request', () => {
  test('the context is created once, when it is read, and its failure is masked', () => {
    let made = 0
    const errors: unknown[] = []
    const handle = toNode<{ n: number }>((request) => {
      if (request.path === '/none') return json(200, {})
      return json(200, [request.context.n, request.context.n])
    }, {
      context: (req) => {
        if (req.url === '/fail') throw new Error('secret')
        return { n: ++made }
      },
      onError: (error) => errors.push(error)
    })
    return serving(handle, async (port) => {
      await ask(port, 'GET', '/none')
      assert.equal(made, 0)
      assert.deepEqual(await seen(port, '/x'), [1, 1])
      assert.equal((await ask(port, 'GET', '/fail')).status, 500)
      assert.equal(errors.length, 1)
    })
  })

  test('the request has the peer, the headers and the objects of the application', () => {
    let same = false
    const listener: RequestListener = (req, res) => toNode((request) => {
      const raw = request.raw as NodeRaw
      same = raw.req === req && raw.res === res && request.headers === req.headers
      return json(200, request.peerAddress)
    })(req, res)
    return serving(listener, async (port) => {
      assert.equal(await seen(port, '/'), '127.0.0.1')
      assert.equal(same, true)
    })
  })

  test('a pipelined request does not run if the connection closes while an earlier response of the application is sent', () => {
    let runs = 0
    let closed = false
    const handle = toNode(() => { runs++; return json(200, {}) })
    // The application never ends its response to the first request.
    return serving((req, res) => {
      if (req.url === '/2') handle(req, res)
      else res.once('close', () => { closed = true })
    }, async (port) => {
      const wire = new Wire(port, 'GET /1 HTTP/1.1\r\nHost: a\r\n\r\nGET /2 HTTP/1.1\r\nHost: a\r\n\r\n')
      await once(wire.socket, 'connect')
      wire.socket.destroy()
      await eventually(() => closed, 'closes')
      assert.equal(runs, 0)
    })
  })

  test('a signal that is first read after the client has left is already aborted', () => {
    let late: unknown
    const handle = toNode(async (request) => {
      const { res } = request.raw as NodeRaw
      const before = request.gone
      await once(res, 'close')
      // Told without a signal, and with one.
      late = [before, request.gone, new DerivedRequest(request, {}).gone, request.signal.aborted, request.gone]
      return json(200, {})
    })
    let got = false
    return serving((req, res) => { handle(req, res); got = true }, async (port) => {
      const wire = new Wire(port, 'GET / HTTP/1.1\r\nHost: a\r\n\r\n')
      await eventually(() => got, 'arrives')
      wire.socket.destroy()
      await eventually(() => late !== undefined, 'late')
      assert.deepEqual(late, [false, true, true, true, true])
    })
  })

  test('a derived request with its own signal is aborted with that signal', async () => {
    const controller = new AbortController()
    const request = { signal: new AbortController().signal, gone: false } as HttpRequest
    const derived = new DerivedRequest(request, { signal: () => controller.signal })
    assert.deepEqual([derived.gone, new DerivedRequest(derived, {}).gone], [false, false])
    controller.abort()
    assert.deepEqual([derived.gone, new DerivedRequest(derived, {}).gone, request.gone], [true, true, false])
  })

  test('a server of the compatibility API of node:http2 is supported', async () => {
    const handle = toNode(async (request) => {
      const bytes = await request.body.bytes(100)
      return request.path === '/stream'
        ? {
          status: 200,
          headers: { 'content-type': 'text/plain' },
          body: (async function* () {
            yield 'a'
            yield 'b'
          })(),
        }
        : json(201, { path: request.path, size: bytes?.byteLength })
    })
    const server = createHttp2Server((req, res) => handle(req as unknown as IncomingMessage, res as never))
    const client = connectHttp2((await listen(server)).url)
    try {
      const read = async (path: string, body?: string): Promise<[number, string]> => {
        const stream = client.request({ ':path': path, ':method': body === undefined ? 'GET' : 'POST' })
        stream.end(body)
        const [headers] = await once(stream, 'response') as [{ ':status': number }]
        let text = ''
        for await (const chunk of stream) text += String(chunk)
        return [headers[':status'], text]
      }
      assert.deepEqual(await read('/x?y', '12345'), [201, '{"path":"/x","size":5}'])
      assert.deepEqual(await read('/stream'), [200, 'ab'])
    } finally {
      client.destroy()
      server.close()
    }
  })
})
