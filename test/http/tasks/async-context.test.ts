// The async context (AsyncLocalStorage) of what belongs to no request, behind frameworks whose middleware enters one.
import assert from 'node:assert/strict'
import { AsyncLocalStorage } from 'node:async_hooks'
import { createServer } from 'node:http'
import { describe, test, type TestContext } from 'node:test'
import express from 'express'
import fastify from 'fastify'
import { toFastify } from '../../../adapters/fastify/index.js'
import { toNode } from '../../../adapters/node/index.js'
import { callbacks } from '../../../src/callbacks/index.js'
import type { Handler } from '../../../src/http/exchange.js'
import { router } from '../../../src/resources/router.js'
import { defineTask } from '../../../src/tasks/definition/define.js'
import { taskEndpoints } from '../../../src/tasks/http/endpoints.js'
import { createTasks } from '../../../src/tasks/tasks.js'
import { listen } from '../../kit/listen.js'
import { eventually, keepAlive } from '../../kit/wait.js'
import { openDatabase } from '../../servers/open-database.js'
import { postgresUrl } from '../../servers/postgres-url.js'
import { redisUrl } from '../../servers/redis-server.js'
import { SECRET } from '../kit/callbacks.js'

const USERS = 12
/** The user whose request is served, as a middleware of the application sets it. */
const user = new AsyncLocalStorage<string>()

type Serve = (handler: Handler, t: TestContext) => Promise<string>

const FRAMEWORKS: Readonly<Record<string, Serve>> = {
  Express: async (handler, t) => {
    const app = express()
    app.use((req, _res, next) => { user.run(String(req.headers['x-user']), next) })
    app.use(toNode(handler))
    const { url, close } = await listen(createServer(app))
    t.after(close)
    return url
  },
  Fastify: async (handler, t) => {
    const app = fastify()
    app.addHook('onRequest', (request, _reply, done) => { user.run(String(request.headers['x-user']), done) })
    app.removeAllContentTypeParsers()
    app.addContentTypeParser('*', (_request, _payload, done) => { done(null) })
    app.all('/*', toFastify(handler))
    t.after(() => app.close())
    return app.listen({ port: 0, host: '127.0.0.1' })
  },
}

const urls = { memory: undefined, PostgreSQL: await postgresUrl(), Redis: await redisUrl() }

let sites = 0

/** Serves tasks that note the user of each function of theirs that is called. */
async function site(t: TestContext, serve: Serve, url: string | undefined) {
  keepAlive(t)
  const seen = new Map<string, Set<string | undefined>>()
  const note = (what: string): void => {
    const users = seen.get(what) ?? new Set()
    seen.set(what, users.add(user.getStore()))
  }
  let ended = 0
  const work = defineTask({
    name: 'work', attempts: 2, backoff: { type: 'fixed', delayMs: 5 },
    external: {
      of: (input: { n: number }) => `file-${String(input.n)}`,
      release: () => { note('external.release') },
      renew: () => {
        note('external.renew')
        return true
      },
      bytes: () => {
        note('external.bytes')
        return 1
      },
    },
    run: async ({ n }, { attempt }) => {
      note('run')
      // As an application enters the context of the tenant that the task belongs to.
      user.enterWith(`run ${String(n)}`)
      await Promise.resolve()
      if (attempt === 1 && n % 2 === 1) throw new Error('The printer is away')
      if (n % 3 === 2) throw new Error('The printer is away')
      return { n }
    },
  })
  const aborts: Promise<void>[] = []
  const endless = defineTask({
    name: 'endless', pool: 'endless',
    run: (_, { signal }) => {
      const aborted = new Promise<void>((resolve) => {
        signal.addEventListener('abort', () => {
          note('abort')
          resolve()
        })
      })
      aborts.push(aborted)
      return aborted
    },
  })
  const direct = defineTask({ name: 'direct', run: () => ({ user: user.getStore() }) })
  const { parts, close } = openDatabase(url, { name: `context_${String(process.pid)}_${String(++sites)}` })
  const tasks = user.run('createTasks', () => createTasks({
    ...parts, definitions: [work, endless, direct], concurrency: 2, pools: { endless: { concurrency: 2 } },
    onError: () => { note('onError') },
    callbacks: callbacks({
      secrets: async () => {
        note('secrets')
        return [SECRET]
      },
      sender: {
        check: () => { note('sender.check') },
        send: async () => {
          note('sender.send')
          ended++
          return { status: 204 }
        },
      },
    }),
  }))
  const { submit, status } = taskEndpoints(tasks, {
    statusPath: '/tasks/{id}', owner: ({ headers }) => String(headers['x-user']),
    callback: (body) => body['callbackUrl'],
  })
  const base = await serve(router({
    'POST /work': submit(work), 'POST /endless': submit(endless), 'POST /direct': submit(direct),
    'GET|DELETE /tasks/{id}': status,
  }), t)
  t.after(async () => {
    await tasks.close({ drainMs: 0 })
    await close()
  })
  const call = (method: string, path: string, as: string, body?: object, prefer = 'respond-async') =>
    fetch(base + path, {
      method,
      headers: { 'content-type': 'application/json', prefer, 'x-user': as },
      ...(body && { body: JSON.stringify(body) }),
    })
  return { seen, call, aborts, ended: () => ended }
}

for (const [engine, url] of Object.entries(urls)) {
  describe(`functions outside of a request, with ${engine}`, () => {
    for (const [framework, serve] of Object.entries(FRAMEWORKS)) {
      test(`are all called in the async context of createTasks, behind ${framework}`, async (t) => {
        const { seen, call, ended } = await site(t, serve, url)
        const statuses = await Promise.all(Array.from({ length: USERS }, async (_, n) => (
          (await call('POST', '/work', `user ${String(n)}`, { n, callbackUrl: 'http://receiver.test/' })).status
        )))
        assert.deepEqual(new Set(statuses), new Set([202]))
        await eventually(() => ended() === USERS, 20_000)
        const called = [
          'external.bytes', 'external.release', 'external.renew', 'onError', 'run', 'secrets',
          'sender.check', 'sender.send',
        ]
        assert.deepEqual([...seen.keys()].sort(), called)
        for (const what of called) assert.deepEqual([...seen.get(what) ?? []], ['createTasks'], what)
      })
    }

    test('get a cancel of another user in the async context of createTasks', async (t) => {
      const { seen, call, aborts } = await site(t, FRAMEWORKS['Express'] as Serve, url)
      const { taskId } = await (await call('POST', '/endless', 'ann', {})).json() as { taskId: string }
      await eventually(() => aborts.length === 1, 20_000)
      assert.equal((await call('DELETE', `/tasks/${taskId}`, 'ann')).status, 200)
      await aborts[0]
      assert.deepEqual([...seen.get('abort') ?? []], ['createTasks'])
    })

    test('see the context of their own request in a synchronous run', async (t) => {
      const { call } = await site(t, FRAMEWORKS['Express'] as Serve, url)
      const answers = await Promise.all(['ann', 'bob', 'cy'].map(async (name) => (
        (await call('POST', '/direct', name, {}, 'return=representation')).json()
      )))
      assert.deepEqual(answers, [{ user: 'ann' }, { user: 'bob' }, { user: 'cy' }])
    })
  })
}
