// watchTask against a real server of the package.
import assert from 'node:assert/strict'
import { createServer, type IncomingMessage } from 'node:http'
import { describe, test, type TestContext } from 'node:test'
import { createTasks, defineTask, httpError, jsonSchema, router, taskEndpoints } from 'longhaul'
import { createClient, watchTask, type TaskWatch, type WatchedTask } from 'longhaul/client'
import { memory } from 'longhaul/memory'
import { toNode } from 'longhaul/node'
import { partialResults } from 'longhaul/partial'
import { deferred, keepAlive } from '../../kit/wait.js'
import { listen } from '../../kit/listen.js'

type Step = 'next' | 'clear' | 'fail'

/** A task that does one step for each call of `step`, and a server that can cut its connections. */
async function setUp(t: TestContext, options: { readonly attempts?: number } = {}) {
  keepAlive(t)
  const { engine, store } = memory()
  const words = partialResults<string>({ store, gatherMs: 1 })
  let next = deferred<Step>()
  const text = defineTask({
    name: 'text', external: words.external,
    run: words.run(async (_input, { emit, clear, progress }) => {
      for (let done = 1; done <= 4; done++) {
        await emit(`word ${done}`)
        progress(done, 4)
        const step = await next.promise
        next = deferred()
        if (step === 'clear') await clear()
        if (step === 'fail') throw httpError('conflict', { message: 'There are no words.' })
      }
      return { count: 4 }
    }),
  })
  const mail = defineTask({
    name: 'mail',
    asks: {
      approve: jsonSchema<{ send: boolean }>({
        type: 'object', required: ['send'], properties: { send: { type: 'boolean' } },
      }),
    },
    run: async (_input, { ask }) => ask('approve', { message: 'Send it?' }),
  })
  const tasks = createTasks({ engine, store, definitions: [text, mail] })
  const endpoints = taskEndpoints(tasks, { statusPath: '/tasks/{id}', owner: 'anyone' })
  const handle = toNode(router({
    'POST /texts': endpoints.submit(text),
    'POST /mails': endpoints.submit(mail),
    'GET|DELETE /tasks/{id}': endpoints.status,
    'POST /tasks/{id}/input': endpoints.input,
    'GET /tasks/{id}/partial-results': words.endpoint(endpoints),
  }))
  const requests: IncomingMessage[] = []
  const server = createServer((req, res) => {
    requests.push(req)
    handle(req, res)
  })
  const { url, close, port } = await listen(server)
  t.after(async () => {
    await close()
    await tasks.close({ drainMs: 0 })
  })
  const api = createClient({ baseUrl: url, retry: { baseMs: 1, attempts: options.attempts ?? 8 } })
  return { api, server, port, requests, step: (step: Step = 'next') => { next.resolve(step) } }
}

/** Resolves with the first snapshot that fits. */
function until<R, T>(
  watch: TaskWatch<R, T>, fits: (now: WatchedTask<R, T>) => boolean,
): Promise<WatchedTask<R, T>> {
  const { promise, resolve } = deferred<WatchedTask<R, T>>()
  const show = () => {
    if (fits(watch.getSnapshot())) resolve(watch.getSnapshot())
  }
  const stop = watch.subscribe(show)
  show()
  return promise.finally(stop)
}

const values = ({ partialResults }: WatchedTask) => partialResults.map(({ value }) => value)

describe('watchTask', () => {
  test('shows progress, partial results and the result, each in a frozen snapshot', async (t) => {
    const { api, step } = await setUp(t)
    const task = await api.submit('/texts', {})
    const watch = watchTask(api, task, { partialResults: true })
    t.after(watch.close)
    const seen = new Set([watch.getSnapshot()])
    watch.subscribe(() => { seen.add(watch.getSnapshot()) })
    assert.equal(watch.getSnapshot(), watch.getSnapshot())
    assert.equal(watch.getSnapshot().status, undefined)
    for (let done = 1; done <= 4; done++) {
      const now = await until(watch, (each) => each.progress?.done === done && each.partialResults.length === done)
      assert.equal(now.status, 'processing')
      step()
    }
    const last = await until(watch, ({ status }) => status === 'completed')
    assert.deepEqual(
      [values(last), last.result, last.error, last.hasGap],
      [['word 1', 'word 2', 'word 3', 'word 4'], { count: 4 }, undefined, false],
    )
    assert.ok([...seen].every((each) => Object.isFrozen(each) && Object.isFrozen(each.partialResults)))
    assert.equal(new Set([...seen].map((each) => JSON.stringify(each))).size, seen.size)
  })

  test('continues the partial results after broken connections, each of them once', async (t) => {
    const { api, step, server } = await setUp(t)
    const watch = watchTask(api, JSON.stringify(await api.submit('/texts', {})), { partialResults: true })
    t.after(watch.close)
    const stop = watch.subscribe(() => undefined)
    for (let done = 1; done <= 4; done++) {
      await until(watch, (each) => each.partialResults.length === done)
      server.closeAllConnections()
      // A page that leaves and returns, as React does in its strict mode.
      if (done === 2) {
        stop()
        watch.subscribe(() => undefined)
      }
      step()
    }
    const last = await until(watch, ({ status }) => status === 'completed')
    assert.deepEqual([values(last), last.hasGap], [['word 1', 'word 2', 'word 3', 'word 4'], false])
  })

  test('shows a gap, and removes the results before the gap', async (t) => {
    const { api, step } = await setUp(t)
    const watch = watchTask(api, await api.submit('/texts', {}), { partialResults: true })
    t.after(watch.close)
    await until(watch, (each) => each.partialResults.length === 1)
    step('clear')
    const now = await until(watch, ({ hasGap, partialResults }) => hasGap && partialResults.length > 0)
    assert.deepEqual(values(now), ['word 2'])
  })

  test('keeps the newest partial results', async (t) => {
    const { api, step } = await setUp(t)
    const watch = watchTask<unknown, string>(api, await api.submit('/texts', {}), { partialResults: true, maxResults: 1 })
    t.after(watch.close)
    await until(watch, (each) => each.partialResults[0]?.value === 'word 1' && !each.hasGap)
    step()
    const now = await until(watch, (each) => each.partialResults[0]?.value === 'word 2')
    assert.deepEqual([values(now), now.hasGap], [['word 2'], true])
  })

  test('sends an answer, and shows the reason if the server rejects the answer', async (t) => {
    const { api } = await setUp(t)
    const watch = watchTask(api, await api.submit('/mails', {}))
    t.after(watch.close)
    watch.subscribe(() => undefined)
    const { inputs } = await until(watch, ({ status }) => status === 'input_required')
    assert.equal(inputs['approve']?.message, 'Send it?')
    assert.equal(await watch.answer('approve', { send: 'perhaps' }), false)
    const { error } = await until(watch, (each) => each.error !== undefined)
    assert.deepEqual([error?.code, error?.details?.[0]?.pointer], ['invalid_input', '/approve/send'])
    assert.equal(await watch.answer('approve', { send: true }), true)
    const last = await until(watch, ({ status }) => status === 'completed')
    assert.deepEqual([last.result, last.inputs, last.error], [{ send: true }, {}, undefined])
  })

  test('shows an answer that is not JSON as an error', async (t) => {
    const { api } = await setUp(t)
    const watch = watchTask(api, { statusUrl: '/tasks/1' })
    assert.equal(await watch.answer('approve', 1n), false)
    assert.equal((await until(watch, ({ error }) => error !== undefined)).error?.code, 'client_error')
  })

  test('shows the error of a failed task after its partial results', async (t) => {
    const { api, step } = await setUp(t)
    const watch = watchTask(api, await api.submit('/texts', {}), { partialResults: true })
    t.after(watch.close)
    step('fail')
    const { error, partialResults, result } = await until(watch, ({ status }) => status === 'failed')
    assert.deepEqual([error?.code, partialResults.length, result], ['conflict', 1, undefined])
  })

  test('shows the error of the server for an unknown task', async (t) => {
    const { api, requests } = await setUp(t)
    const watch = watchTask(api, { statusUrl: '/tasks/none' }, { partialResults: true })
    const { error, status } = await until(watch, (each) => each.error !== undefined)
    assert.deepEqual([error?.code, status], ['task_not_found', undefined])
    assert.ok(requests.length <= 2)
  })

  test('tries again after the client has given up, and then shows no error', async (t) => {
    const { api, server, port } = await setUp(t, { attempts: 1 })
    const task = await api.submit('/texts', {})
    await new Promise((resolve) => {
      server.close(resolve)
      server.closeAllConnections()
    })
    const watch = watchTask(api, task)
    t.after(watch.close)
    watch.subscribe(() => undefined)
    const timeout = setTimeout
    // The engine passes arguments.
    const soon = (work: () => void, ms = 0, ...more: []) => timeout(work, ms > 10_000 && ms < 60_000 ? 5 : ms, ...more)
    t.mock.method(globalThis, 'setTimeout', soon)
    assert.equal((await until(watch, (each) => each.error !== undefined)).error?.code, 'network_error')
    server.listen(port, '127.0.0.1')
    const now = await until(watch, ({ status }) => status === 'processing')
    assert.equal(now.error, undefined)
  })

  test('opens connections for the first subscriber, and closes them when the last subscriber leaves', async (t) => {
    const { api, requests } = await setUp(t)
    const watch = watchTask(api, await api.submit('/texts', {}), { partialResults: true })
    assert.equal(requests.length, 1)
    const listener = () => undefined
    const stops = [watch.subscribe(listener), watch.subscribe(listener)]
    await until(watch, ({ status, partialResults }) => status === 'processing' && partialResults.length === 1)
    assert.equal(requests.length, 3)
    const closed = Promise.all(requests.slice(1).map((req) => new Promise((resolve) => { req.socket.once('close', resolve) })))
    stops[0]?.()
    stops[0]?.()
    assert.ok(requests.slice(1).every((req) => !req.socket.destroyed))
    stops[1]?.()
    await closed
    watch.close()
    watch.subscribe(listener)
    assert.equal(requests.length, 3)
  })

  test('calls the other listeners if one throws', async (t) => {
    const { api } = await setUp(t)
    const watch = watchTask(api, await api.submit('/texts', {}))
    t.after(watch.close)
    const thrown = deferred<unknown>()
    t.mock.method(globalThis, 'queueMicrotask', (work: () => void) => {
      void Promise.resolve().then(work).catch(thrown.resolve)
    })
    const stop = watch.subscribe(() => { throw new Error('of the page') })
    assert.equal((await until(watch, ({ status }) => status !== undefined)).status, 'processing')
    assert.match(String(await thrown.promise), /of the page/)
    stop()
  })

  test('shows the result of a server that responded at once', async (t) => {
    const { api } = await setUp(t)
    const watch = watchTask(api, { result: { pages: 3 } }, { partialResults: true })
    const { result, status } = await until(watch, (each) => each.status !== undefined)
    assert.deepEqual([result, status], [{ pages: 3 }, 'completed'])
  })
})
