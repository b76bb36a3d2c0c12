// Partial results over each engine: as a browser, a script with lines, and a client that comes back would read them.
import assert from 'node:assert/strict'
import { describe, test, type TestContext } from 'node:test'
import { setTimeout as sleep } from 'node:timers/promises'
import {
  createTasks, defineTask, jsonSchema, router, taskEndpoints, type AnyTaskDefinition, type Schema,
} from 'longhaul'
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
const input = jsonSchema<Input>({
  type: 'object',
  required: ['words'],
  properties: { words: { type: 'array', items: { type: 'string' } } },
})
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
    const store = new SpyStore(parts.store, spy, parts.store.shared)
    const words = partialResults<string>({ store, ...options })
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
    const tasks = createTasks({ ...parts, store, definitions: [say], worker, onError: () => undefined })
    const endpoints = taskEndpoints(tasks, {
      statusPath: '/tasks/{id}',
      owner: ({ headers }) => String(headers['x-user'] ?? 'ann'),
      remove: 'forget',
    })
    const handle = toFetch(router({
      'POST /tasks': endpoints.submit(say), 'GET|DELETE /tasks/{id}': endpoints.status,
      'GET|HEAD|OPTIONS|POST /tasks/{id}/partial-results': words.endpoint(endpoints),
    }))
    const ask = (path: string, headers: Record<string, string> = {}, method = 'GET', body?: unknown) =>
      handle(
        new Request(`http://localhost${path}`, {
          method,
          headers: { ...(body !== undefined && { 'content-type': 'application/json' }), ...headers },
          ...(body !== undefined && { body: JSON.stringify(body) }),
        }),
      )
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
  const ended = async (path: string) => {
    for (;;) {
      const told = await (await web.ask(path, { prefer: 'wait=20' })).json() as { status: string; taskId: string }
      if (told.status !== 'processing') return told
    }
  }
  /** Keys of the entries that were written. */
  const keys = () => spy.writes.map((call) => call.split(' ')[1] ?? '').filter((key) => key.startsWith('partial/'))
  return { ...web, submit, ended, gates, keys }
}

/** Returns a text with ids as `log-3`. */
const plain = (text: string): string =>
  text.replaceAll(/\b[0-9a-f]{8}-(?=\d+\b)/g, 'log-').replaceAll(/(log-\d+)-\d+/g, '$1-end')

/** Yields events with ids as `log-3`. */
async function* plainEvents(response: Response) {
  for await (const event of eventsOf(response)) yield JSON.parse(plain(JSON.stringify(event))) as typeof event
}

const EVENTS = { accept: 'text/event-stream' }
const LINES = { accept: 'application/x-ndjson' }

for (const [name, url] of Object.entries(urls)) {
  describe(`partial results on ${name}`, () => {
    test('arrive as events while the task runs, in order, and end with the task', async (t) => {
      const { submit, ask, gates } = open(t, url)
      const path = await submit('a', 'wait', 'b')
      const response = await ask(`${path}/partial-results`, EVENTS)
      assert.equal(response.headers.get('content-type'), 'text/event-stream; charset=utf-8')
      // A middleware that compresses would hold events back.
      assert.equal(response.headers.get('cache-control'), 'no-store, no-transform')
      const events = plainEvents(response)
      assert.deepEqual((await events.next()).value, { retry: '2000' })
      assert.deepEqual((await events.next()).value, { id: 'log-1', data: '"a"' })
      gates[1]?.resolve()
      assert.deepEqual((await events.next()).value, { id: 'log-2', data: '"wait"' })
      assert.deepEqual((await events.next()).value, { id: 'log-3', data: '"b"' })
      assert.deepEqual((await events.next()).value, { id: 'log-3-end', event: 'end', data: '{"status":"completed"}' })
      assert.equal((await events.next()).done, true)
    })

    test('arrive while the run waits and its task does not change', { timeout: 60_000 }, async (t) => {
      const { submit, ask, gates } = open(t, url)
      const path = await submit('wait', 'a', 'wait', 'b', 'wait')
      gates[0]?.resolve()
      const events = plainEvents(await ask(`${path}/partial-results`, EVENTS))
      await events.next()
      let count = 0
      const arrive = async (...words: string[]): Promise<void> => {
        for (const word of words) {
          // A heartbeat, after 15 seconds, would show what the reader was not told of.
          const began = performance.now()
          const { value } = await events.next()
          assert.deepEqual(value, { id: `log-${String(++count)}`, data: JSON.stringify(word) })
          assert.ok(performance.now() - began < 10_000, `${word} waited for a heartbeat`)
        }
      }
      await arrive('wait', 'a')
      // By then the reader waits for news.
      await sleep(300)
      gates[2]?.resolve()
      await arrive('wait', 'b')
      await sleep(300)
      gates[4]?.resolve()
      await arrive('wait')
      assert.equal((await events.next()).value?.event, 'end')
    })

    test('continue after the last result that a client has, as events and as lines', async (t) => {
      const { submit, ended, ask } = open(t, url)
      const path = await submit('a', 'b', 'c')
      await ended(path)
      const { last } = await (await ask(`${path}/partial-results`)).json() as { last: string }
      const at = (number: number): string => last.replace(/3$/, String(number))
      const events = await (await ask(`${path}/partial-results`, { ...EVENTS, 'last-event-id': at(2) })).text()
      assert.equal(
        plain(events),
        'retry: 2000\n\nid: log-3\ndata: "c"\n\nid: log-3-end\nevent: end\ndata: {"status":"completed"}\n\n',
      )
      // An EventSource keeps the parameter of its URL when it reconnects.
      const again = await (
        await ask(`${path}/partial-results?after=${at(1)}`, { ...EVENTS, 'last-event-id': at(2) })
      ).text()
      assert.equal(again, events)
      // The connection broke between the last result and the end.
      const end = await (await ask(`${path}/partial-results`, { ...EVENTS, 'last-event-id': last })).text()
      assert.equal(plain(end), 'retry: 2000\n\nid: log-3-end\nevent: end\ndata: {"status":"completed"}\n\n')
      const told = /^id: (.*-.*-.*)$/m.exec(end)?.[1] ?? ''
      for (const method of ['GET', 'HEAD']) {
        assert.equal(
          (await ask(`${path}/partial-results?after=${at(1)}`, { ...EVENTS, 'last-event-id': told }, method)).status,
          204,
        )
      }
      const lines = await (await ask(`${path}/partial-results?after=${at(1)}`, LINES)).text()
      assert.equal(
        plain(lines),
        '{"id":"log-2","value":"b"}\n{"id":"log-3","value":"c"}\n{"id":"log-3-end","end":{"status":"completed"}}\n',
      )
      const now = await ask(`${path}/partial-results?after=${at(2)}`)
      assert.equal(now.headers.get('cache-control'), 'no-store')
      assert.deepEqual(await now.json(), { status: 'completed', last, results: [{ id: last, value: 'c' }] })
    })

    test('continue in a later run after what an earlier run has emitted', async (t) => {
      const { submit, ended, ask } = open(t, url)
      const path = await submit('a', 'fail', 'b')
      await ended(path)
      const { results } = await (await ask(`${path}/partial-results`)).json() as { results: { value: string }[] }
      assert.deepEqual(results.map(({ value }) => value), ['a'])
    })

    test('continue when a failed task is retried', async (t) => {
      const { submit, ended, ask, tasks } = open(t, url)
      const path = await submit('a', 'fail', 'b')
      const { taskId, status } = await ended(path)
      assert.equal(status, 'failed')
      await tasks.retry(taskId)
      const end = await tasks.wait(taskId, { timeoutMs: 20_000 })
      assert.ok(end?.status === 'failed' && end.error.code === 'task_failed')
      assert.ok(Number(end.attempts?.at(-1)?.attempt) > 3)
      const { last, results } = (await (await ask(`${path}/partial-results`)).json()) as {
        last: string
        results: object[]
      }
      assert.deepEqual(results, [{ id: last, value: 'a' }])
    })

    test('have a gap for a reader that has all of them, if clear deletes them', async (t) => {
      const { submit, ask, gates } = open(t, url)
      const path = await submit('a', 'b', 'wait', 'clear', 'wait', 'c')
      const events = plainEvents(await ask(`${path}/partial-results`, EVENTS))
      await events.next()
      await events.next()
      assert.deepEqual((await events.next()).value, { id: 'log-2', data: '"b"' })
      gates[2]?.resolve()
      // "wait" was emitted just before, and is dropped unseen.
      assert.deepEqual((await events.next()).value, { id: 'log-0', event: 'gap', data: '{}' })
      gates[4]?.resolve()
      assert.deepEqual((await events.next()).value, { id: 'log-1', data: '"wait"' })
      assert.deepEqual((await events.next()).value, { id: 'log-2', data: '"c"' })
      for await (const { event } of events) assert.equal(event, 'end')
    })

    test('do not appear in a later task with the same id', async (t) => {
      const { ask, tasks, say, store, keys } = open(t, url)
      await tasks.submit(say, { words: ['secret'] }, { id: 'chosen-id-of-a-task', owner: 'bob' })
      await tasks.wait('chosen-id-of-a-task', { timeoutMs: 20_000 })
      const [key = ''] = keys()
      const left = await store.get(key)
      const etag = (await ask('/tasks/chosen-id-of-a-task', { 'x-user': 'bob' })).headers.get('etag') ?? ''
      assert.equal(
        (await ask('/tasks/chosen-id-of-a-task', { 'x-user': 'bob', 'if-match': etag }, 'DELETE')).status,
        204,
      )
      await eventually(async () => await store.get(key) === undefined, 15_000)
      // A removal that failed leaves the entry.
      await store.create(key, left?.value ?? '', { ttlMs: 60_000 })
      await tasks.submit(say, { words: ['wait', 'mine'] }, { id: 'chosen-id-of-a-task', owner: 'ann' })
      const none = await (await ask('/tasks/chosen-id-of-a-task/partial-results')).json() as { results: object[] }
      assert.deepEqual(none.results, [])
    })

    test('lose the oldest results above the limit, and the reader is notified', async (t) => {
      const { submit, ended, ask } = open(t, url, { maxResults: 100 })
      const path = await submit(...Array.from({ length: 1000 }, (_, at) => `word ${String(at)}`))
      await ended(path)
      const { last, gap, results } = (await (await ask(`${path}/partial-results`)).json()) as {
        last: string
        gap: boolean
        results: { id: string; value: string }[]
      }
      assert.deepEqual([gap, plain(last), results.at(-1)], [true, 'log-1000', { id: last, value: 'word 999' }])
      assert.ok(results.length >= 100 && results.length <= 110)
      const lines = (await (await ask(`${path}/partial-results`, LINES)).text()).split('\n')
      const [{ id, value } = { id: '', value: '' }] = results
      assert.deepEqual(lines.slice(0, 2).map(plain), [
        `{"id":"log-${1000 - results.length}","gap":{}}`,
        plain(JSON.stringify({ id, value })),
      ])
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

    test('reach ninety readers of one task completely', async (t) => {
      const { submit, ask, gates } = open(t, url)
      const path = await submit('a', 'wait', 'b')
      // One owner may hold a tenth of the places.
      const readers = await Promise.all(Array.from({ length: 90 }, () => ask(`${path}/partial-results`, LINES)))
      gates[1]?.resolve()
      for (const text of await Promise.all(readers.map((reader) => reader.text()))) {
        assert.equal(
          plain(text),
          '{"id":"log-1","value":"a"}\n{"id":"log-2","value":"wait"}\n{"id":"log-3","value":"b"}\n{"id":"log-3-end","end":{"status":"completed"}}\n',
        )
      }
    })
  })
}

describe('the resource of partial results', () => {
  test('responds to everybody except the owner as for an unknown task', async (t) => {
    const { submit, ask } = open(t, undefined)
    const path = await submit('a')
    for (const headers of [EVENTS, LINES, {}]) {
      const response = await ask(`${path}/partial-results`, { ...headers, 'x-user': 'bob' })
      assert.equal(response.status, 404)
      assert.equal((await response.json() as { code: string }).code, 'task_not_found')
    }
  })

  test('rejects unknown positions, parameters, types and methods', async (t) => {
    const { submit, ask } = open(t, undefined)
    const path = `${await submit('a')}/partial-results`
    for (const after of ['x', '1', '-1', 'a-1-1-1', 'a-1&after=a-1'])
      assert.equal((await ask(`${path}?after=${after}`)).status, 400)
    assert.equal((await ask(`${path}?since=1`)).status, 400)
    assert.equal((await ask(path, { ...EVENTS, 'last-event-id': '-1' })).status, 400)
    assert.equal((await ask(path, { accept: 'image/png' })).status, 406)
    assert.equal((await ask(path, {}, 'POST')).status, 405)
    assert.equal((await ask(path, EVENTS, 'HEAD')).headers.get('content-type'), 'text/event-stream; charset=utf-8')
  })

  test('is not created for definitions without external, or with another store', async (t) => {
    const { store } = memory()
    const words = partialResults<string>({ store, keepMs: 1000 })
    const other = partialResults<string>({ store: memory().store })
    const heard: unknown[] = []
    const run = words.run(() => 1)
    const external = { of: () => 'file', release: () => undefined }
    const create = (definition: AnyTaskDefinition) => {
      const tasks = createTasks({
        store,
        engine: memory().engine,
        definitions: [definition],
        onError: (error) => {
          heard.push(error)
        },
      })
      t.after(() => tasks.close())
      return { tasks, endpoints: taskEndpoints(tasks, { statusPath: '/tasks/{id}', owner: 'anyone' }) }
    }
    const kept = create(defineTask({ name: 'kept', external: words.external, run }))
    assert.throws(() => words.endpoint(kept.endpoints), {
      message: 'partialResults: keepMs must be at least retentionMs and failedRetentionMs of the task kept',
    })
    assert.throws(() => other.endpoint(kept.endpoints), {
      message: 'partialResults: pass the store that createTasks has',
    })
    const without = defineTask({ name: 'without', run })
    for (const definition of [without, defineTask({ name: 'without', external, run })]) {
      assert.throws(() => words.endpoint(create(definition).endpoints), {
        message: 'partialResults: the definition without needs its property external, too',
      })
    }
    const { tasks } = create(without)
    const { taskId } = await tasks.submit(without, {})
    assert.equal((await tasks.wait(taskId, { timeoutMs: 20_000 }))?.status, 'failed')
    assert.match(String(heard[0]), /partialResults: the definition needs the property external, too/)
  })

  test('has a gap if results were evicted, and no gap if the task cannot have emitted any', async (t) => {
    const { store: inner, engine } = memory()
    const spy = new Spy()
    const store = new SpyStore(inner, spy)
    const words = partialResults<string>({ store })
    const run = words.run(async (_input: unknown, { emit }) => emit('a'))
    let isValid = true
    // The schema of a process that runs tasks may reject what another one has accepted.
    const changing: Schema<object> = { '~standard': { version: 1, vendor: 'test', validate: (value) => (
      isValid ? { value: value as object } : { issues: [{ message: 'no more' }] }
    ) } }
    const rejected = defineTask({ name: 'rejected', external: words.external, input: changing, run })
    const other = defineTask({
      name: 'other',
      external: { of: () => 'a file', release: () => undefined },
      run: () => 1,
    })
    const emits = defineTask({ name: 'emits', external: words.external, run })
    const tasks = createTasks({ store, engine, definitions: [rejected, other, emits], onError: () => undefined })
    t.after(() => tasks.close())
    const endpoints = taskEndpoints(tasks, { statusPath: '/tasks/{id}', owner: 'anyone' })
    const handle = toFetch(router({ 'GET /tasks/{id}/partial-results': words.endpoint(endpoints) }))
    const shown = async ({ taskId }: { readonly taskId: string }) => {
      await tasks.wait(taskId, { timeoutMs: 20_000 })
      return (await handle(new Request(`http://localhost/tasks/${taskId}/partial-results`))).json()
    }
    const accepted = await tasks.submit(rejected, {})
    isValid = false
    assert.deepEqual(await shown(accepted), { status: 'failed', last: 'none-0', results: [] })
    assert.deepEqual(await shown(await tasks.submit(other, {})), { status: 'completed', last: 'none-0', results: [] })
    const emitted = await tasks.submit(emits, {})
    await tasks.wait(emitted.taskId, { timeoutMs: 20_000 })
    assert.equal(await inner.delete(spy.writes.at(-1)?.split(' ')[1] ?? ''), true)
    assert.deepEqual(await shown(emitted), { status: 'completed', last: 'gone-0', gap: true, results: [] })
  })

  test('sends a heartbeat in time, even if the task has changed without a new result', async (t) => {
    keepAlive(t)
    const { store, engine } = memory()
    const words = partialResults<string>({ store })
    const gate = deferred()
    const end = deferred()
    const say = defineTask({
      name: 'say',
      external: words.external,
      run: words.run(async (_input: object, { emit, progress }) => {
        await emit('a')
        await gate.promise
        progress(1, 2)
        await end.promise
      }),
    })
    const tasks = createTasks({ store, engine, definitions: [say], progressIntervalMs: 1 })
    t.after(() => tasks.close())
    const endpoints = taskEndpoints(tasks, { statusPath: '/tasks/{id}', owner: 'anyone' })
    const handle = toFetch(router({ 'GET /tasks/{id}/partial-results': words.endpoint(endpoints) }))
    const { taskId } = await tasks.submit(say, {})
    const [later, waits, realNow, realTimeout] = [
      { ms: 0 },
      [] as number[],
      performance.now.bind(performance),
      setTimeout,
    ]
    t.mock.method(performance, 'now', () => realNow() + later.ms)
    t.mock.method(globalThis, 'setTimeout', (work: () => void, ms: number) => {
      waits.push(ms)
      return realTimeout(work, ms)
    })
    const events = plainEvents(
      await handle(new Request(`http://localhost/tasks/${taskId}/partial-results`, { headers: EVENTS })),
    )
    await events.next()
    assert.deepEqual((await events.next()).value, { id: 'log-1', data: '"a"' })
    const next = events.next()
    await eventually(() => Promise.resolve(waits.some((ms) => ms > 14_000)))
    later.ms = 14_300
    gate.resolve()
    await eventually(() => Promise.resolve(waits.some((ms) => ms > 100 && ms <= 700)))
    end.resolve()
    assert.equal((await next).value?.event, 'end')
    await events.next()
  })

  test('releases the place of a reader that leaves', async (t) => {
    const { submit, ask, tasks } = open(t, undefined)
    const path = await submit('a', 'wait')
    const response = await ask(`${path}/partial-results`, EVENTS)
    await eventually(async () => (await tasks.health()).waiting === 1)
    await response.body?.cancel()
    await eventually(async () => (await tasks.health()).waiting === 0)
  })
})
