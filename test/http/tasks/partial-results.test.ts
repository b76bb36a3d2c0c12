// Partial results over each engine: as a browser, a script with lines, and a client that comes back would read them.
import assert from 'node:assert/strict'
import { describe, test, type TestContext } from 'node:test'
import { createTasks, defineTask, jsonSchema, router, taskEndpoints } from 'longhaul'
import { toFetch } from 'longhaul/fetch'
import { memory } from 'longhaul/memory'
import { partialResults } from 'longhaul/partial'
import { deferred, eventually, keepAlive } from '../../kit/wait.js'
import { openDatabase } from '../../servers/open-database.js'
import { postgresUrl } from '../../servers/postgres-url.js'
import { redisUrl } from '../../servers/redis-server.js'
import { eventsOf } from '../kit/tasks.js'
import { Spy, SpyStore } from '../../unit/kit/tasks.js'

interface Input { readonly words: readonly string[] }
const input = jsonSchema<Input>({ type: 'object', required: ['words'], properties: { words: { type: 'array', items: { type: 'string' } } } })
const urls = { memory: undefined, Redis: await redisUrl(), PostgreSQL: await postgresUrl() }
let sites = 0

/** A web process that also works, and a process on the same tasks that only responds. */
function open(t: TestContext, url: string | undefined, options: { readonly maxResults?: number } = {}) {
  keepAlive(t)
  const name = `partial_${String(process.pid)}_${String(++sites)}`
  const gates = Array.from({ length: 20 }, () => deferred())
  const database = openDatabase(url, { name })
  const spy = new Spy()
  const process_ = (parts: typeof database.parts, worker: boolean) => {
    const words = partialResults<string>({ store: new SpyStore(parts.store, spy), ...options })
    const say = defineTask({
      name: 'say', input, external: words.external, attempts: 3, backoff: { type: 'fixed', delayMs: 1 },
      run: words.run(async (said, { emit, emitted, clear }) => {
        const { count } = await emitted()
        for (const [at, word] of said.words.entries()) {
          if (at < count) continue
          if (word === 'wait') await gates[at]?.promise
          else if (word === 'fail') throw new Error('it fails once')
          else if (word === 'clear') {
            await clear()
            continue
          }
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
    return { tasks, ask, say, store: parts.store }
  }
  const worker = process_(database.parts, true)
  const other = url === undefined ? undefined : openDatabase(url, { name })
  const web = other === undefined ? worker : process_(other.parts, false)
  t.after(async () => {
    for (const gate of gates) gate.resolve()
    await worker.tasks.close({ drainMs: 100 })
    if (web !== worker) await web.tasks.close()
    await database.close()
    await other?.close()
  })
  const submit = async (...said: string[]): Promise<string> => {
    const response = await web.ask('/tasks', { prefer: 'respond-async' }, 'POST', { words: said })
    assert.equal(response.status, 202)
    return response.headers.get('location') ?? ''
  }
  const ended = async (path: string) => (await web.ask(path, { prefer: 'wait=20' })).json() as Promise<{ status: string, taskId: string }>
  /** Keys of the entries that were written. */
  const keys = () => spy.writes.map((call) => call.split(' ')[1] ?? '')
  return { ...web, submit, ended, gates, keys }
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
      // An EventSource keeps the parameter of its URL when it reconnects.
      const again = await (await ask(`${path}/partial-results?after=1`, { ...EVENTS, 'last-event-id': '2' })).text()
      assert.equal(again, events)
      assert.equal((await ask(`${path}/partial-results?after=1`, { ...EVENTS, 'last-event-id': '3' })).status, 204)
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

    test('that are dropped by clear are a gap for a reader that has them all', async (t) => {
      const { submit, ask, gates } = open(t, url)
      const path = await submit('a', 'b', 'wait', 'clear', 'wait', 'c')
      const events = eventsOf(await ask(`${path}/partial-results`, EVENTS))
      await events.next()
      await events.next()
      assert.deepEqual((await events.next()).value, { id: '2', data: '"b"' })
      gates[2]?.resolve()
      // "wait" was emitted just before, and is dropped unseen.
      assert.deepEqual((await events.next()).value, { id: '3', event: 'gap', data: '{"from":4}' })
      gates[4]?.resolve()
      assert.deepEqual((await events.next()).value, { id: '4', data: '"wait"' })
      assert.deepEqual((await events.next()).value, { id: '5', data: '"c"' })
      for await (const { event } of events) assert.equal(event, 'end')
    })

    test('of a task are not those of a later task under its id', async (t) => {
      const { ask, tasks, say, store, keys } = open(t, url)
      await tasks.submit(say, { words: ['secret'] }, { id: 'chosen-id-of-a-task', owner: 'bob' })
      await tasks.wait('chosen-id-of-a-task', { timeoutMs: 20_000 })
      const [key = ''] = keys()
      const left = await store.get(key)
      const etag = (await ask('/tasks/chosen-id-of-a-task', { 'x-user': 'bob' })).headers.get('etag') ?? ''
      assert.equal((await ask('/tasks/chosen-id-of-a-task', { 'x-user': 'bob', 'if-match': etag }, 'DELETE')).status, 204)
      await eventually(async () => await store.get(key) === undefined, 15_000)
      // A removal that failed leaves the entry.
      await store.create(key, left?.value ?? '', { ttlMs: 60_000 })
      await tasks.submit(say, { words: ['wait', 'mine'] }, { id: 'chosen-id-of-a-task', owner: 'ann' })
      const none = await (await ask('/tasks/chosen-id-of-a-task/partial-results')).json() as { results: object[] }
      assert.deepEqual(none.results, [])
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
      const { submit, ended, ask, store, keys } = open(t, url)
      const path = await submit('a')
      await ended(path)
      const [key = ''] = keys()
      assert.notEqual(await store.get(key), undefined)
      const { headers } = await ask(path)
      assert.equal((await ask(path, { 'if-match': headers.get('etag') ?? '' }, 'DELETE')).status, 204)
      assert.equal((await ask(`${path}/partial-results`)).status, 404)
      await eventually(async () => await store.get(key) === undefined, 15_000)
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

  test('is not created for tasks that are kept for longer, and a run without external is rejected', async (t) => {
    const { store, engine } = memory()
    const words = partialResults<string>({ store, keepMs: 1000 })
    const heard: unknown[] = []
    const definitions = [
      defineTask({ name: 'say', external: words.external, run: words.run(() => 1) }),
      defineTask({ name: 'forgot', run: words.run(() => 1) }),
    ] as const
    const tasks = createTasks({ store, engine, definitions, onError: (error) => { heard.push(error) } })
    t.after(() => tasks.close())
    const endpoints = taskEndpoints(tasks, { statusPath: '/tasks/{id}', owner: 'anyone' })
    assert.throws(() => words.endpoint(endpoints), { message: 'partialResults: keepMs must be at least retentionMs of the task say' })
    const { taskId } = await tasks.submit(definitions[1], {})
    assert.equal((await tasks.wait(taskId, { timeoutMs: 20_000 }))?.status, 'failed')
    assert.match(String(heard[0]), /partialResults: the definition needs its `external`/)
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
