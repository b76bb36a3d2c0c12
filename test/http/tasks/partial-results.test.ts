// Partial results over each engine: as a browser, a script with lines, and a client that comes back would read them.
import assert from 'node:assert/strict'
import { setInterval } from 'node:timers'
import { describe, test, type TestContext } from 'node:test'
import { createTasks, defineTask, jsonSchema, router, taskEndpoints } from 'longhaul'
import { toFetch } from 'longhaul/fetch'
import { partialResults } from 'longhaul/partial'
import { deferred, eventually } from '../../kit/wait.js'
import { openDatabase } from '../../servers/open-database.js'
import { postgresUrl } from '../../servers/postgres-url.js'
import { redisUrl } from '../../servers/redis-server.js'
import { eventsOf } from '../kit/tasks.js'

interface Input { readonly words: readonly string[] }
const input = jsonSchema<Input>({ type: 'object', required: ['words'], properties: { words: { type: 'array', items: { type: 'string' } } } })
const urls = { memory: undefined, Redis: await redisUrl(), PostgreSQL: await postgresUrl() }
let sites = 0

/** A web process that also works, and a process on the same tasks that only responds. */
function open(t: TestContext, url: string | undefined, options: { readonly maxResults?: number } = {}) {
  const hold = setInterval(() => undefined, 60_000)
  const name = `partial_${String(process.pid)}_${String(++sites)}`
  const gates = Array.from({ length: 20 }, () => deferred())
  const memory = openDatabase(url, { name })
  const process_ = (parts: typeof memory.parts, worker: boolean) => {
    const words = partialResults<string>({ store: parts.store, ...options })
    const say = defineTask({
      name: 'say', input, external: words.external, attempts: 3, backoff: { type: 'fixed', delayMs: 1 },
      run: words.run(async (said, { emit, emitted }) => {
        const { length } = await emitted()
        for (const [at, word] of said.words.entries()) {
          if (at < length) continue
          if (word === 'wait') await gates[at]?.promise
          else if (word === 'fail') throw new Error('it fails once')
          await emit(word)
        }
        return said.words.length
      }),
    })
    const tasks = createTasks({ ...parts, definitions: [say], worker, onError: () => undefined })
    const endpoints = taskEndpoints(tasks, { statusPath: '/tasks/{id}', owner: ({ headers }) => String(headers['x-user'] ?? 'ann'), remove: 'forget' })
    const handle = toFetch(router({
      'POST /tasks': endpoints.submit(say), 'GET|DELETE /tasks/{id}': endpoints.status,
      'GET|HEAD|OPTIONS|POST /tasks/{id}/partial-results': words.endpoint(endpoints),
    }))
    const ask = (path: string, headers: Record<string, string> = {}, method = 'GET', body?: unknown) => handle(new Request(`http://localhost${path}`, {
      method, headers: { ...body !== undefined && { 'content-type': 'application/json' }, ...headers }, ...body !== undefined && { body: JSON.stringify(body) },
    }))
    return { tasks, ask, store: parts.store }
  }
  const worker = process_(memory.parts, true)
  const other = url === undefined ? undefined : openDatabase(url, { name })
  const web = other === undefined ? worker : process_(other.parts, false)
  t.after(async () => {
    for (const gate of gates) gate.resolve()
    await worker.tasks.close({ drainMs: 100 })
    if (web !== worker) await web.tasks.close()
    await memory.close()
    await other?.close()
    clearInterval(hold)
  })
  const submit = async (...said: string[]): Promise<string> => {
    const response = await web.ask('/tasks', { prefer: 'respond-async' }, 'POST', { words: said })
    assert.equal(response.status, 202)
    return response.headers.get('location') ?? ''
  }
  const ended = async (path: string) => (await web.ask(path, { prefer: 'wait=20' })).json() as Promise<{ status: string, taskId: string }>
  return { ...web, submit, ended, gates }
}

const EVENTS = { accept: 'text/event-stream' }
const LINES = { accept: 'application/x-ndjson' }

for (const [name, url] of Object.entries(urls)) {
  describe(`partial results on ${name}`, () => {
    test('arrive as events while the task runs, in order, and end with it', async (t) => {
      const { submit, ask, gates } = open(t, url)
      const path = await submit('a', 'wait', 'b')
      const response = await ask(`${path}/partial-results`, EVENTS)
      assert.equal(response.headers.get('content-type'), 'text/event-stream; charset=utf-8')
      const events = eventsOf(response)
      assert.deepEqual((await events.next()).value, { retry: '2000' })
      assert.deepEqual((await events.next()).value, { id: '1', data: '"a"' })
      gates[1]?.resolve()
      assert.deepEqual((await events.next()).value, { id: '2', data: '"wait"' })
      assert.deepEqual((await events.next()).value, { id: '3', data: '"b"' })
      assert.deepEqual((await events.next()).value, { id: '3', event: 'end', data: '{"status":"completed"}' })
      assert.equal((await events.next()).done, true)
    })

    test('continue after the last one that a client has, as events and as lines', async (t) => {
      const { submit, ended, ask } = open(t, url)
      const path = await submit('a', 'b', 'c')
      await ended(path)
      const events = await (await ask(`${path}/partial-results`, { ...EVENTS, 'last-event-id': '2' })).text()
      assert.equal(events, 'retry: 2000\n\nid: 3\ndata: "c"\n\nid: 3\nevent: end\ndata: {"status":"completed"}\n\n')
      const done = await ask(`${path}/partial-results`, { ...EVENTS, 'last-event-id': '3' })
      assert.equal(done.status, 204)
      const lines = await (await ask(`${path}/partial-results?after=1`, LINES)).text()
      assert.equal(lines, '{"id":2,"value":"b"}\n{"id":3,"value":"c"}\n{"end":{"status":"completed"}}\n')
      const now = await ask(`${path}/partial-results?after=2`)
      assert.equal(now.headers.get('cache-control'), 'no-store')
      assert.deepEqual(await now.json(), { status: 'completed', last: 3, results: [{ id: 3, value: 'c' }] })
    })

    test('a later run goes on after what an earlier one has emitted', async (t) => {
      const { submit, ended, ask } = open(t, url)
      const path = await submit('a', 'fail', 'b')
      await ended(path)
      const { results } = await (await ask(`${path}/partial-results`)).json() as { results: { value: string }[] }
      assert.deepEqual(results.map(({ value }) => value), ['a'])
    })

    test('go on when a failed task is retried', async (t) => {
      const { submit, ended, ask, tasks } = open(t, url)
      const path = await submit('a', 'fail', 'b')
      const { taskId, status } = await ended(path)
      assert.equal(status, 'failed')
      await tasks.retry(taskId)
      const end = await tasks.wait(taskId, { timeoutMs: 20_000 })
      assert.ok(end?.status === 'failed' && end.error.code === 'task_failed')
      assert.ok(Number(end.attempts?.at(-1)?.attempt) > 3)
      const { results } = await (await ask(`${path}/partial-results`)).json() as { results: object[] }
      assert.deepEqual(results, [{ id: 1, value: 'a' }])
    })

    test('of many, the oldest are dropped, and a reader is told', async (t) => {
      const { submit, ended, ask } = open(t, url, { maxResults: 100 })
      const path = await submit(...Array.from({ length: 1000 }, (_, at) => `word ${String(at)}`))
      await ended(path)
      const { last, from, results } = await (await ask(`${path}/partial-results`)).json() as { last: number, from: number, results: { id: number }[] }
      assert.equal(last, 1000)
      assert.ok(from > 100 && from <= 1000)
      assert.equal(results[0]?.id, from)
      assert.equal(results.at(-1)?.id, 1000)
      assert.match(await (await ask(`${path}/partial-results`, LINES)).text(), new RegExp(`^\\{"gap":\\{"from":${String(from)}\\}\\}\\n\\{"id":${String(from)},`))
    })

    test('are deleted with their task', async (t) => {
      const { submit, ended, ask, store } = open(t, url)
      const path = await submit('a')
      const { taskId } = await ended(path)
      const { headers } = await ask(path)
      assert.equal((await ask(path, { 'if-match': headers.get('etag') ?? '' }, 'DELETE')).status, 204)
      assert.equal((await ask(`${path}/partial-results`)).status, 404)
      await eventually(async () => await store.get(`partial/${taskId}`) === undefined, 15_000)
    })

    test('ninety readers of one task get all of it', async (t) => {
      const { submit, ask, gates } = open(t, url)
      const path = await submit('a', 'wait', 'b')
      // One owner may hold a tenth of the places.
      const readers = await Promise.all(Array.from({ length: 90 }, () => ask(`${path}/partial-results`, LINES)))
      gates[1]?.resolve()
      for (const text of await Promise.all(readers.map((reader) => reader.text()))) {
        assert.equal(text, '{"id":1,"value":"a"}\n{"id":2,"value":"wait"}\n{"id":3,"value":"b"}\n{"end":{"status":"completed"}}\n')
      }
    })
  })
}

describe('the resource of partial results', () => {
  test('is that of an unknown task for everybody but the owner', async (t) => {
    const { submit, ask } = open(t, undefined)
    const path = await submit('a')
    for (const headers of [EVENTS, LINES, {}]) {
      const response = await ask(`${path}/partial-results`, { ...headers, 'x-user': 'bob' })
      assert.equal(response.status, 404)
      assert.equal((await response.json() as { code: string }).code, 'task_not_found')
    }
  })

  test('rejects positions, parameters, types and methods that it does not know', async (t) => {
    const { submit, ask } = open(t, undefined)
    const path = `${await submit('a')}/partial-results`
    assert.equal((await ask(`${path}?after=x`)).status, 400)
    assert.equal((await ask(`${path}?since=1`)).status, 400)
    assert.equal((await ask(path, { ...EVENTS, 'last-event-id': '-1' })).status, 400)
    assert.equal((await ask(path, { accept: 'image/png' })).status, 406)
    assert.equal((await ask(path, {}, 'POST')).status, 405)
    assert.equal((await ask(path, EVENTS, 'HEAD')).headers.get('content-type'), 'text/event-stream; charset=utf-8')
  })

  test('a reader that leaves releases its place', async (t) => {
    const { submit, ask, tasks } = open(t, undefined)
    const path = await submit('a', 'wait')
    const response = await ask(`${path}/partial-results`, EVENTS)
    await eventually(async () => (await tasks.health()).waiting === 1)
    await response.body?.cancel()
    await eventually(async () => (await tasks.health()).waiting === 0)
  })
})
