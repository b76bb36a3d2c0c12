// Policies around the handlers that a host has of its own.
import assert from 'node:assert/strict'
import { once } from 'node:events'
import { createServer, type IncomingMessage, type ServerResponse } from 'node:http'
import { createRequire } from 'node:module'
import { Readable } from 'node:stream'
import { describe, test } from 'node:test'
import connect from 'connect'
import express5 from 'express'
import fastify from 'fastify'
import Koa from 'koa'
import { memory } from '../../../adapters/memory/index.js'
import { requestOf, toMiddleware, toNode, type NodeHandler } from '../../../adapters/node/index.js'
import type { Policy, ResponseHeaders } from '../../../src/http/exchange.js'
import { principalOf } from '../../../src/http/principal.js'
import { json } from '../../../src/http/respond.js'
import { authenticate } from '../../../src/policies/authenticate.js'
import { authorize } from '../../../src/policies/authenticate.js'
import { bearer, tokens } from '../../../src/policies/schemes.js'
import { consume, rateLimit } from '../../../src/policies/rate-limit.js'
import { limitBody } from '../../../src/policies/limits.js'
import { limitConcurrency } from '../../../src/policies/limits.js'
import { requestId, requestIdOf } from '../../../src/policies/request-id.js'
import { timeouts } from '../../../src/policies/timeouts.js'
import { deprecated } from '../../../src/versions/deprecation.js'
import { listen, listening, type Listening } from '../../kit/listen.js'
import { ask, open } from '../kit/wire.js'

type Guard = NodeHandler
type Respond = (req: IncomingMessage & { user?: unknown }, res: ServerResponse) => void

/** A host that runs a guard and then answers by itself. */
interface Site {
  readonly name: string
  start(guard: Guard, respond: Respond): Promise<Listening>
}

const express4 = createRequire(import.meta.url)('express4') as typeof express5
const express = (name: string, make: typeof express5): Site => ({
  name,
  start: (guard, respond) => {
    const app = make()
    app.use('/own', guard, (req, res) => respond(req, res))
    return listen(createServer(app))
  },
})

const SITES: readonly Site[] = [
  express('Express 4', express4),
  express('Express 5', express5),
  {
    name: 'Connect',
    start: (guard, respond) => {
      const app = connect()
      app.use('/own', guard as never)
      app.use('/own', (req, res) => respond(req, res))
      return listen(createServer(app))
    },
  },
  {
    name: 'node:http',
    start: (guard, respond) => listen(createServer((req, res) => guard(req, res, () => respond(req, res)))),
  },
  {
    name: 'Fastify',
    start: async (guard, respond) => {
      const app = fastify({ forceCloseConnections: true })
      app.addHook('onRequest', (request, reply, done) => { guard(request.raw, reply.raw, () => done()) })
      app.all('/own', (request, reply) => {
        reply.hijack()
        respond(request.raw, reply.raw)
      })
      await app.listen({ port: 0, host: '127.0.0.1' })
      return { ...listening(app.server), close: () => app.close() }
    },
  },
  {
    name: 'Koa',
    start: (guard, respond) => {
      const app = new Koa()
      app.use((ctx, next) => new Promise((resolve, reject) => {
        ctx.res.once('close', resolve)
        guard(ctx.req, ctx.res, () => { next().then(resolve, reject) })
      }))
      app.use((ctx) => {
        ctx.respond = false
        // Koa begins with 404.
        ctx.res.statusCode = 200
        respond(ctx.req, ctx.res)
      })
      const listener = app.callback()
      return listen(createServer((req, res) => { void listener(req, res) }))
    },
  },
]

const ANN = { subject: 'ann' }
const who = authenticate({ schemes: [bearer({ verify: async (token) => tokens({ t: ANN })(token) })] })
const old = deprecated({ deprecated: '2026-01-01', sunset: '2027-01-01', successor: '/v2' })
const adding = (headers: ResponseHeaders): Policy => async (request, next) => {
  const answer = await next(request)
  return answer && { ...answer, headers: { ...answer.headers, ...headers } }
}
const hello: Respond = (_, res) => { res.end('hello') }
const T = { authorization: 'Bearer t' }

async function serving(
  site: Site,
  guard: Guard,
  respond: Respond,
  use: (port: number) => Promise<void>,
): Promise<void> {
  const running = await site.start(guard, respond)
  try {
    await use(running.port)
  } finally {
    await running.close()
  }
}

for (const site of SITES) {
  describe(`toMiddleware in ${site.name}`, () => {
    test('adds the deprecation headers to every response of the application', () => {
      const answers: Record<string, Respond> = {
        'end': hello,
        'writeHead': (_, res) => {
          res.writeHead(200, { 'Content-Type': 'text/plain' }).end('hello')
        },
        'a reason': (_, res) => {
          res.writeHead(200, 'Fine', { 'X-Own': '1' }).end('hello')
        },
        'a list of pairs': (_, res) => {
          res
            .writeHead(200, [
              ['X-Own', '1'],
              ['Set-Cookie', 'a=1'],
              ['Set-Cookie', 'b=2'],
            ] as never)
            .end('hello')
        },
        'a flat list': (_, res) => {
          res.writeHead(200, ['X-Own', '1', 'Set-Cookie', 'a=1', 'Set-Cookie', 'b=2']).end('hello')
        },
        'stream': (_, res) => {
          Readable.from(['hel', 'lo']).pipe(res)
        },
        'flush': (_, res) => {
          res.flushHeaders()
          setImmediate(() => res.end('hello'))
        },
        'an error': (_, res) => {
          res.statusCode = 500
          res.end('hello')
        },
      }
      return serving(
        site,
        toMiddleware(old),
        (req, res) => answers[String(req.headers['x-how'])]?.(req, res),
        async (port) => {
          for (const how of Object.keys(answers)) {
            const { status, headers, body } = await ask(port, 'GET', '/own', { headers: { 'x-how': how } })
            assert.equal(status, how === 'an error' ? 500 : 200, how)
            assert.equal(body, 'hello', how)
            assert.equal(headers['deprecation'], '@1767225600', how)
            assert.equal(headers['sunset'], 'Fri, 01 Jan 2027 00:00:00 GMT', how)
            assert.equal(headers['link'], '</v2>; rel="successor-version"', how)
            if (how.startsWith('a flat') || how.startsWith('a list'))
              assert.deepEqual([headers['x-own'], headers['set-cookie']], ['1', ['a=1', 'b=2']], 'all its fields')
            if (how === 'a reason') assert.equal(headers['x-own'], '1', 'its fields')
          }
        },
      )
    })

    test('adds the headers to HEAD and 304, which have no body', () => serving(site, toMiddleware(old), (req, res) => {
      res.statusCode = req.method === 'HEAD' ? 200 : 304
      res.end()
    }, async (port) => {
      for (const [method, status] of [['HEAD', 200], ['GET', 304]] as const) {
        const answer = await ask(port, method, '/own')
        assert.deepEqual([answer.status, answer.body], [status, ''], method)
        assert.ok(answer.headers['deprecation'], method)
      }
    }))

    test("joins lists that both set, and keeps the application's value of other headers", () => {
      const guard = toMiddleware([
        adding({
          'vary': 'Accept, Origin',
          'link': '</v2>; rel="successor-version"',
          'x-both': 'policy',
          'content-length': '3',
          'set-cookie': 'p=1',
        }),
        adding({ 'vary': 'Prefer', 'x-mine': 'policy' }),
      ])
      return serving(site, guard, (_, res) => {
        res.setHeader('Vary', 'origin')
        res
          .writeHead(200, { 'X-Both': 'host', 'Link': '</next>; rel="next"', 'Set-Cookie': ['h=1', 'h=2'] })
          .end('hello')
      }, async (port) => {
        const { headers, body } = await ask(port, 'GET', '/own')
        assert.equal(headers['vary'], 'origin, Prefer, Accept')
        assert.equal(headers['link'], '</next>; rel="next", </v2>; rel="successor-version"')
        assert.deepEqual(headers['set-cookie'], ['h=1', 'h=2', 'p=1'])
        assert.deepEqual([headers['x-both'], headers['x-mine']], ['host', 'policy'])
        assert.equal(body, 'hello', 'its length is its own')
      })
    })

    test("SPEC 5.2: rejects with longhaul's error body before the application runs, and passes the principal on", () => {
      let runs = 0
      const guard = toMiddleware([
        requestId(),
        who,
        authorize({ allow: (_, { method }) => method === 'GET', reason: 'read_only' }),
      ])
      return serving(
        site,
        guard,
        (req, res) => {
          runs++
          const handed = requestOf(req)
          res.end(
            JSON.stringify({
              user: req.user,
              subject: handed && principalOf(handed)?.subject,
              id: handed && requestIdOf(handed),
            }),
          )
        },
        async (port) => {
          const nobody = await ask(port, 'POST', '/own', { body: 'x'.repeat(1000) })
          assert.deepEqual([nobody.status, JSON.parse(nobody.body).code, runs], [401, 'unauthorized', 0])
          assert.equal(nobody.headers['www-authenticate'], 'Bearer realm="longhaul"')
          assert.match(
            nobody.headers['x-request-id'] as string,
            /^[\w-]{22}$/,
            'also what another policy of the list refused',
          )
          const ann = await ask(port, 'POST', '/own', { headers: T })
          assert.deepEqual([ann.status, JSON.parse(ann.body).reason, runs], [403, 'read_only', 0])
          const known = await ask(port, 'GET', '/own', { headers: T })
          assert.deepEqual(JSON.parse(known.body), { user: ANN, subject: 'ann', id: known.headers['x-request-id'] })
          assert.equal(known.headers['www-authenticate'], undefined)
        },
      )
    })

    test('SPEC 8.2: applies the rate limit, and shows what is left in the responses of the application', () => {
      const guard = toMiddleware(
        rateLimit({
          store: memory().store,
          onStoreError: 'deny',
          policies: [{ name: 'few', limit: 2, windowSeconds: 60 }],
        }),
      )
      return serving(site, guard, hello, async (port) => {
        const seen = []
        for (let time = 0; time < 3; time++) {
          const { status, headers } = await ask(port, 'GET', '/own')
          seen.push([status, headers['ratelimit'], headers['ratelimit-policy']])
        }
        assert.deepEqual(seen, [
          [200, '"few";r=1;t=60', '"few";q=2;w=60'],
          [200, '"few";r=0;t=60', '"few";q=2;w=60'],
          [429, '"few";r=0;t=60', '"few";q=2;w=60'],
        ])
      })
    })

    test('holds a place of limitConcurrency until the headers of the response are sent or the client disconnects', () => {
      const held: ServerResponse[] = []
      const seen: ((res: ServerResponse) => void)[] = []
      const next = (): Promise<ServerResponse> => new Promise((resolve) => { seen.push(resolve) })
      return serving(
        site,
        toMiddleware(limitConcurrency({ maxConcurrent: 1 })),
        (_, res) => {
          held.push(res)
          seen.shift()?.(res)
        },
        async (port) => {
          let waiting = next()
          const first = open(port, 'GET', '/own')
          const res = await waiting
          const second = await ask(port, 'GET', '/own')
          assert.deepEqual([second.status, JSON.parse(second.body).code, held.length], [503, 'overloaded', 1])
          res.write('begun')
          ;(await first).on('error', () => {}).resume()
          waiting = next()
          const third = open(port, 'GET', '/own')
          const left = await waiting
          third.catch(() => {})
          left.destroy()
          await once(left, 'close')
          waiting = next()
          const fourth = ask(port, 'GET', '/own')
          ;(await waiting).end('hello')
          assert.equal((await fourth).body, 'hello')
          res.end()
        },
      )
    })
  })
}

describe('toMiddleware', () => {
  const [, site] = SITES as [Site, Site]

  test("adds its headers to the application's own 404 and error pages", async () => {
    for (const make of [express4, express5]) {
      const app = make()
      app.set('env', 'test')
      app.use(toMiddleware(old))
      app.get('/fails', () => { throw Object.assign(new Error('no'), { status: 418 }) })
      const { port, close } = await listen(createServer(app))
      for (const [path, status] of [['/fails', 418], ['/nothing', 404]] as const) {
        const answer = await ask(port, 'GET', path)
        assert.deepEqual([answer.status, answer.headers['deprecation']], [status, '@1767225600'], path)
      }
      await close()
    }
  })

  test("adds its headers to Fastify's own replies, its 404 and its errors", async () => {
    const app = fastify()
    const guard = toMiddleware([old, adding({ vary: 'Accept' })])
    app.addHook('onRequest', (request, reply, done) => { guard(request.raw, reply.raw, () => done()) })
    app.get('/own', (_, reply) => reply.header('Vary', 'Origin').send({ hello: true }))
    app.get('/fails', () => { throw new Error('no') })
    await app.listen({ port: 0, host: '127.0.0.1' })
    const { port } = listening(app.server)
    for (const [path, status] of [['/own', 200], ['/fails', 500], ['/nothing', 404]] as const) {
      const answer = await ask(port, 'GET', path)
      assert.deepEqual([answer.status, answer.headers['deprecation']], [status, '@1767225600'], path)
      assert.equal(answer.headers['vary'], path === '/own' ? 'Origin, Accept' : 'Accept', path)
    }
    await app.close()
  })

  test('adds each header once if several middleware follow each other in front of a handler of longhaul', async () => {
    const app = express5()
    const { store } = memory()
    const few = (name: string, limit: number, by: 'address' | 'principal') =>
      toMiddleware(rateLimit({ store, onStoreError: 'deny', policies: [{ name, limit, windowSeconds: 60, by }] }))
    app.use(toMiddleware(requestId()), few('all', 100, 'address'), toMiddleware(who), few('mine', 10, 'principal'))
    app.use(toNode(async (request) => {
      await consume(request, 4)
      return json(200, { is: principalOf(request)?.subject, id: requestIdOf(request) }, { vary: 'Accept' })
    }))
    const { port, close } = await listen(createServer(app))
    const answer = await ask(port, 'GET', '/', { headers: T })
    assert.deepEqual(JSON.parse(answer.body), { is: 'ann', id: answer.headers['x-request-id'] })
    assert.equal(answer.headers['ratelimit-policy'], '"mine";q=10;w=60, "all";q=100;w=60')
    const { value } = await store.increment('rl:mine:p:ann', 0, { ttlMs: 1000 })
    const { value: all } = await store.increment('rl:all:a:127.0.0.1', 0, { ttlMs: 1000 })
    assert.deepEqual([value, all], [5, 5], 'charged in both')
    await close()
  })

  test("keeps the user that the application knows, and sends a policy's own response", () => {
    const guard = toMiddleware([
      who,
      (request, next) => (request.path === '/own/cached' ? json(200, 'cached') : next(request)),
    ])
    const app = express5()
    app.use(
      '/own',
      (req, _, next) => {
        ;(req as { user?: unknown }).user = 'host'
        next()
      },
      guard,
      (req, res) => {
        res.end((req as { user?: string }).user)
      },
    )
    return listen(createServer(app)).then(async ({ port, close }) => {
      assert.equal((await ask(port, 'GET', '/own', { headers: T })).body, 'host')
      assert.equal((await ask(port, 'GET', '/own/cached', { headers: T })).body, '"cached"')
      await close()
    })
  })

  test('sends the response of a policy that calls the application first', () => {
    const instead: Policy = async (request, next) => { await next(request); return json(200, 'instead') }
    return serving(site, toMiddleware(instead), hello, async (port) => {
      assert.equal((await ask(port, 'GET', '/own')).body, '"instead"')
    })
  })

  test('masks and reports a failure of a policy, and a header that cannot be sent', async () => {
    for (const bad of [
      () => {
        throw new Error('secret')
      },
      async () => {
        throw new Error('secret')
      },
      adding({ 'x-bad': 'a\nb' }),
      adding({ 'bad name': '1' }),
    ] as Policy[]) {
      const heard: unknown[] = []
      let runs = 0
      await serving(
        site,
        toMiddleware([who, bad], {
          onError: (error) => {
            heard.push(error)
          },
        }),
        () => {
          runs++
        },
        async (port) => {
          const answer = await ask(port, 'GET', '/own', { headers: T })
          assert.deepEqual(
            [answer.status, JSON.parse(answer.body).code, heard.length, runs],
            [500, 'internal_error', 1, 0],
          )
          assert.doesNotMatch(answer.body, /secret/)
        },
      )
    }
  })

  test('sends the headers with the last call of writeHead if an application calls it twice', () =>
    serving(
      site,
      toMiddleware([old, adding({ vary: 'Accept' })]),
      (_, res) => {
        assert.throws(() => res.writeHead(99), RangeError)
        for (const name of res.getHeaderNames()) res.removeHeader(name)
        res.writeHead(500).end()
        assert.throws(() => res.writeHead(200), { code: 'ERR_HTTP_HEADERS_SENT' })
      },
      async (port) => {
        const { status, headers } = await ask(port, 'GET', '/own')
        assert.deepEqual([status, headers['vary'], headers['link']], [500, 'Accept', '</v2>; rel="successor-version"'])
        assert.ok(headers['deprecation'])
      },
    ))

  test('throws at construction for invalid options', () => {
    for (const [make, what] of [
      [() => toMiddleware([]), /at least one policy/],
      [
        () => toMiddleware([authorize({ allow: () => true, reason: 'r' }), who]),
        /authorize stands before authenticate/,
      ],
      [() => toMiddleware(timeouts({ runMs: 1000 })), /timeouts works on handlers of longhaul only/],
      [() => toMiddleware([who, limitBody({ maxBodyBytes: 1 })]), /limitBody works on handlers of longhaul only/],
      [() => toMiddleware('deprecated' as never), /argument 1 is not a function/],
      [() => toMiddleware(who, { mountPath: 'x' }), /starts? with/],
    ] as const)
      assert.throws(make, (error) => error instanceof TypeError && what.test(error.message), String(what))
  })
})
