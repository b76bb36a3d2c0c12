// Issue 15, C16: what a page of another site can start in a real browser whose user has a session here.
import assert from 'node:assert/strict'
import { createServer, type IncomingMessage } from 'node:http'
import { after, before, describe, test } from 'node:test'
import type { Browser, BrowserContext, Page } from 'playwright-core'
import { memory } from '../../../adapters/memory/index.js'
import { toNode } from '../../../adapters/node/index.js'
import { bulkCreate } from '../../../src/bulk/create.js'
import { compose } from '../../../src/http/exchange.js'
import { json } from '../../../src/http/respond.js'
import { ndjsonUpload } from '../../../src/ndjson/upload.js'
import { authenticate } from '../../../src/policies/authenticate.js'
import { crossSite } from '../../../src/policies/cross-site.js'
import { hostUser } from '../../../src/policies/schemes.js'
import { collection } from '../../../src/resources/collection.js'
import { cors } from '../../../src/resources/cors.js'
import { resource } from '../../../src/resources/methods.js'
import { router } from '../../../src/resources/router.js'
import { jsonSchema } from '../../../src/schema/json-schema.js'
import { createTasks } from '../../../src/tasks/tasks.js'
import { defineTask } from '../../../src/tasks/definition/define.js'
import { taskEndpoints } from '../../../src/tasks/http/endpoints.js'
import { openBrowser } from '../../servers/chromium.js'
import { listen, type Listening } from '../../kit/listen.js'

/** What the pages below use of the DOM. */
interface Element { append(child: Element): void, submit(): void }
declare const document: { createElement(name: string): Element, readonly body: Element }
declare const navigator: { sendBeacon(url: string, body?: Blob): boolean }

interface Context { session: string | undefined }

/** What has happened on the server for the user whom the cookie stands for. */
const happened: string[] = []
/** Requests as they came in: `POST /start cross-site`. */
const came: string[] = []
let api: Listening
let pages: Listening
let browser: Browser
let context: BrowserContext
let own: Page
let foreign: Page
let close = async (): Promise<void> => undefined

before(async () => {
  const work = defineTask({ name: 'work', run: () => { happened.push('work'); return { message: 'done' } } })
  const tasks = createTasks({ ...memory(), definitions: [work] })
  const { submit, status } = taskEndpoints<Context>(tasks, { statusPath: '/tasks/{id}', owner: 'principal' })
  const repository = { create: (draft: object) => { happened.push('create'); return { id: 'a', ...draft } } }
  const schema = jsonSchema<object>({ type: 'object' })
  const users = collection<{ id: string }, object>({ repository, schema, path: '/users' })
  const who = authenticate<{ subject: string }, Context>({
    schemes: [hostUser((request) => {
      const { session } = request.context as Context
      return session === undefined ? undefined : { subject: session }
    })],
  })
  const friend = 'http://127.0.0.1:1'
  const handler = compose<Context>(cors({ origins: [friend], credentials: true }), who, router<Context>({
    'POST /start': submit(work),
    'POST /start-always': submit(work, { respond: 'always' }),
    'POST /start-empty': submit(work, { respond: 'always', emptyBody: {} }),
    'GET|HEAD|DELETE /tasks/{id}': status,
    'POST /upload': ndjsonUpload<object, Context>({ write: () => { happened.push('upload') } }),
    'POST /users': users.list,
    'POST /bulk': bulkCreate({ repository, schema }),
    '/guarded': compose<Context>(crossSite(), resource<Context>({
      POST: () => { happened.push('guarded'); return json(200, {}) },
      GET: () => json(200, {}),
    })),
  }))
  const handle = toNode<Context>(handler, { context: (req) => ({ session: sessionOf(req) }) })
  api = await listen(createServer((req, res) => {
    if (req.url === '/page' || req.url === '/favicon.ico') {
      res.setHeader('content-type', 'text/html').end('<!doctype html><title>own</title>')
      return
    }
    const { 'sec-fetch-site': site, 'content-type': type } = req.headers
    came.push(
      `${String(req.method)} ${String(req.url)} ${String(site)}${type === undefined ? '' : ` ${type.split(';')[0] ?? ''}`} ${sessionOf(req) ?? 'nobody'}`,
    )
    handle(req, res)
  }))
  pages = await listen(
    createServer((_req, res) => {
      res.setHeader('content-type', 'text/html').end('<!doctype html><title>foreign</title>')
    }),
  )
  close = async () => {
    await api.close()
    await pages.close()
    await tasks.close({ drainMs: 0 })
  }
  browser = await openBrowser()
  context = await browser.newContext()
  // What a session cookie is where a host needs it in frames of others, and what all were before SameSite.
  await context.addCookies([
    { name: 'session', value: 'ann', domain: 'localhost', path: '/', sameSite: 'None', secure: true },
  ])
  own = await context.newPage()
  await own.goto(`http://localhost:${api.port}/page`)
  foreign = await context.newPage()
  await foreign.goto(`http://127.0.0.1:${pages.port}/`)
})
after(async () => {
  await browser.close()
  await close()
})

function sessionOf(req: IncomingMessage): string | undefined {
  return /session=(\w+)/.exec(req.headers.cookie ?? '')?.[1]
}

type Attack = readonly [name: string, run: (url: string) => Promise<unknown>]

const ATTACKS: readonly Attack[] = [
  [
    'a no-cors fetch with a Blob and no Content-Type',
    (url) =>
      foreign.evaluate(
        async (to) =>
          fetch(to, { method: 'POST', mode: 'no-cors', credentials: 'include', body: new Blob(['{}']) }).then(() => 0),
        url,
      ),
  ],
  [
    'a no-cors fetch with a Blob that says it is JSON',
    (url) =>
      foreign.evaluate(
        async (to) =>
          fetch(to, {
            method: 'POST',
            mode: 'no-cors',
            credentials: 'include',
            body: new Blob(['{}'], { type: 'application/json' }),
          }).then(() => 0),
        url,
      ),
  ],
  [
    'a no-cors fetch with text',
    (url) =>
      foreign.evaluate(
        async (to) => fetch(to, { method: 'POST', mode: 'no-cors', credentials: 'include', body: '{}' }).then(() => 0),
        url,
      ),
  ],
  [
    'a no-cors fetch with bytes',
    (url) =>
      foreign.evaluate(
        async (to) =>
          fetch(to, {
            method: 'POST',
            mode: 'no-cors',
            credentials: 'include',
            body: new TextEncoder().encode('{}'),
          }).then(() => 0),
        url,
      ),
  ],
  [
    'a no-cors fetch without a body',
    (url) =>
      foreign.evaluate(
        async (to) => fetch(to, { method: 'POST', mode: 'no-cors', credentials: 'include' }).then(() => 0),
        url,
      ),
  ],
  [
    'a plain cors fetch without a body',
    (url) =>
      foreign.evaluate(
        async (to) =>
          fetch(to, { method: 'POST', credentials: 'include' })
            .catch(() => 0)
            .then(() => 0),
        url,
      ),
  ],
  [
    'a plain cors fetch with a Blob',
    (url) =>
      foreign.evaluate(
        async (to) =>
          fetch(to, { method: 'POST', credentials: 'include', body: new Blob(['{}']) })
            .catch(() => 0)
            .then(() => 0),
        url,
      ),
  ],
  ['sendBeacon with a Blob', (url) => sendBeacon(url, '{}')],
  ['sendBeacon without a body', (url) => sendBeacon(url, undefined)],
  ...['text/plain', 'application/x-www-form-urlencoded', 'multipart/form-data'].flatMap((type): Attack[] => [
    [`a form of ${type}`, (url) => form(url, type, '{"a":"', '"}')],
    [`a form of ${type} without fields`, (url) => form(url, type)],
  ]),
]

/** A beacon tells nobody that it has arrived. */
async function sendBeacon(url: string, text: string | undefined): Promise<void> {
  const before = came.length
  await foreign.evaluate(([to, what]) => navigator.sendBeacon(to, what === undefined ? undefined : new Blob([what])), [
    url,
    text,
  ] as const)
  while (came.length === before) await new Promise(setImmediate)
}

/** A form that a script sends off, into a new page so that this one stays. */
async function form(url: string, type: string, name?: string, value?: string): Promise<void> {
  const [popup] = await Promise.all([
    context.waitForEvent('page'),
    foreign.evaluate(([to, enctype, field, text]) => {
      const made = document.createElement('form')
      Object.assign(made, { method: 'post', action: to, enctype, target: '_blank' })
      if (field !== undefined) {
        const input = document.createElement('input')
        Object.assign(input, { type: 'hidden', name: field, value: text })
        made.append(input)
      }
      document.body.append(made)
      made.submit()
    }, [url, type, name, value]),
  ])
  await popup.waitForLoadState()
  await popup.close()
}

describe('a page of another site starts nothing with the cookie of a user', () => {
  for (const path of ['/start', '/start-always', '/start-empty', '/upload', '/users', '/bulk', '/guarded']) {
    test(path, async () => {
      happened.length = 0
      const url = `http://localhost:${api.port}${path}`
      for (const [name, attack] of ATTACKS) {
        const before = came.length
        await attack(url)
        const [request = ''] = came.slice(before)
        // The attack has arrived, with the cookie: else nothing was proved.
        assert.ok(request.startsWith(`POST ${path} cross-site`) && request.endsWith(' ann'), `${name}: ${request}`)
        assert.deepEqual(happened, [], name)
      }
    })
  }

  test('even by a DELETE of a task or by JSON with its type, for which the browser first sends a preflight', async () => {
    happened.length = 0
    for (const [method, path] of [
      ['DELETE', '/tasks/x'],
      ['POST', '/start'],
    ] as const) {
      const before = came.length
      const failed = await foreign.evaluate(
        async ([how, to]) =>
          fetch(to as string, {
            method: how as string,
            credentials: 'include',
            headers: { 'content-type': 'application/json' },
            ...(how === 'POST' && { body: '{}' }),
          }).then(
            () => false,
            () => true,
          ),
        [method, `http://localhost:${api.port}${path}`],
      )
      assert.equal(failed, true)
      assert.deepEqual(
        came.slice(before).map((each) => each.split(' ')[0]),
        ['OPTIONS'],
      )
    }
    assert.deepEqual(happened, [])
  })
})

test('a page of the same site starts tasks, even without a body', async () => {
  const answers = await own.evaluate(async () => {
    const [start, empty, guarded] = [
      await fetch('/start', { method: 'POST', body: '{}', headers: { 'content-type': 'application/json' } }),
      await fetch('/start-empty', { method: 'POST' }), await fetch('/guarded', { method: 'POST' }),
    ]
    return [start.status, empty.status, guarded.status]
  })
  assert.deepEqual(answers, [200, 202, 200])
  assert.ok(happened.includes('guarded'))
})
