// One caller with many large bodies in flight, and another caller with one.
import assert from 'node:assert/strict'
import { once } from 'node:events'
import { createServer, type IncomingMessage } from 'node:http'
import type { AddressInfo } from 'node:net'
import { after, afterEach, before, beforeEach, describe, test } from 'node:test'
import { compose, createTasks, defineTask, router, taskEndpoints, type Schema } from 'longhaul'
import { idempotent } from 'longhaul/policies'
import { memory } from 'longhaul/memory'
import { attach } from 'longhaul/node'
import { collection } from 'longhaul/resources'
import { heapShare } from '../../../src/runtime/shared-limit.js'
import { ask } from '../kit/wire.js'

const BODIES = 50
const BODY = JSON.stringify({ text: 'x'.repeat(1_048_000) })
/** Number of such bodies that one caller may have parsed at a time. */
const PARSED_OF_ONE = Math.floor(heapShare(8 / 3, Infinity) / 4 / 24 / BODY.length)

interface Input { readonly text: string }

describe(`${BODIES} bodies of 1 MiB of a caller whose requests stay in flight`, () => {
  let parsed = 0
  let open = (): void => undefined
  let opened: Promise<void>
  /** Waits for what the greedy caller has sent, as for a slow database. The other caller sends `x`. */
  const slow: Schema<Input, Input> = { '~standard': {
    version: 1, vendor: 'test',
    validate: async (value) => {
      parsed++
      if ((value as Input).text.startsWith('x')) await opened
      return { value: value as Input }
    },
  } }
  const store = memory()
  const report = defineTask({
    name: 'report',
    input: slow,
    run: ({ text }: Input) => ({ message: String(text.length) }),
  })
  const tasks = createTasks({ ...store, definitions: [report] })
  const endpoints = taskEndpoints(tasks, { statusPath: '/tasks/{id}', owner: 'principal' })
  const records = collection({
    schema: slow, maxBodyBytes: 2_000_000,
    repository: { create: (draft: Input) => ({ id: '1', length: draft.text.length }) },
  })
  const server = createServer()
  attach(server, router({
    'POST /reports': endpoints.submit(report),
    'POST /keyed': compose(idempotent({ store: store.store, caller: 'principal' }), endpoints.submit(report)),
    '/records': records.list,
  }), { context: (request: IncomingMessage) => ({ principal: { subject: String(request.headers['x-user']) } }) })
  before(async () => { await once(server.listen(0, '127.0.0.1'), 'listening') })
  after(async () => {
    server.closeAllConnections()
    server.close()
    await tasks.close()
  })
  beforeEach(() => {
    parsed = 0
    opened = new Promise((resolve) => { open = resolve })
  })
  afterEach(() => { open() })

  const post = (user: string, path: string, body: string, headers: Record<string, string> = {}) => ask(
    (server.address() as AddressInfo).port, 'POST', path,
    { body, headers: { 'content-type': 'application/json', 'prefer': 'respond-async', 'x-user': user, ...headers } },
  )

  for (const [path, status] of [['/reports', 202], ['/keyed', 202], ['/records', 201]] as const) {
    test(
      `do not delay another caller at POST ${path}, and are all accepted in the end`,
      { timeout: 60_000 },
      async () => {
        const keyed = (key: string) => (path === '/keyed' ? { 'idempotency-key': `"${key}"` } : {})
        const greedy = Array.from({ length: BODIES }, (_, n) => post('greedy', path, BODY, keyed(`greedy-${n}`)))
        const most = Math.min(BODIES, PARSED_OF_ONE)
        while (parsed < most) await new Promise(setImmediate)
        const other = await post('other', path, BODY.replace('xx', 'ox'), keyed('other'))
        assert.equal(other.status, status)
        open()
        assert.deepEqual(
          (await Promise.all(greedy)).map((response) => response.status),
          Array.from({ length: BODIES }, () => status),
        )
      },
    )
  }
})
