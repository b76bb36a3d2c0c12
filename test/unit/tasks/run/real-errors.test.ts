// The real errors of failed tasks: what the application's own code and operators see, and what clients do not.
import assert from 'node:assert/strict'
import { describe, test, type TestContext as Test } from 'node:test'
import { callbacks } from '../../../../src/callbacks/index.js'
import {
  createTasks, defineTask, httpError, jobFormat, router, taskEndpoints, type FailureDetails,
  type HttpRequest,
} from '../../../../src/index.js'
import { operatorEndpoints } from '../../../../src/operators/index.js'
import type { TasksOptions } from '../../../../src/tasks/core/tasks-options.js'
import { inject } from '../../../../src/testing/index.js'
import { eventually } from '../../../kit/wait.js'
import { openDatabase } from '../../../servers/open-database.js'
import { sqliteUrl } from '../../../servers/sqlite.js'

const ENGINES = { memory: async () => undefined, SQLite: sqliteUrl }
const SECRET = 'pa55word'

async function setUp(t: Test, url: string | undefined, fail: (run: number) => void, more: Partial<TasksOptions> = {}) {
  const { parts, close } = openDatabase(url, { name: 'real_errors' })
  const work = defineTask({
    name: 'work', attempts: 2, backoff: { type: 'fixed', delayMs: 0 },
    run: (_input: { readonly note: string }, { attempt }) => {
      fail(attempt)
      return 'done'
    },
  })
  const sent: string[] = []
  const tasks = createTasks({
    ...parts, definitions: [work], onError: () => undefined,
    callbacks: callbacks({
      secrets: () => ['whsec_MfKQ9r8GKYqrTwjUPD8ILPZIo2LaLaSw'],
      sender: { check: () => undefined, send: async ({ body }) => {
        sent.push(String(body))
        return { status: 200 }
      } },
    }),
    ...more,
  })
  t.after(async () => {
    await tasks.close({ drainMs: 0 })
    await close()
  })
  const submit = async (input = { note: SECRET }) => {
    const { taskId, wait } = await tasks.submit(work, input, {
      owner: 'ann', context: { token: SECRET }, callbackUrl: 'https://example.org/hook',
    })
    await wait({ timeoutMs: 60_000 })
    return taskId
  }
  return { tasks, work, sent, submit }
}

function failing(run: number): never {
  const cause = Object.assign(new Error(`connect ${SECRET}`), { code: 'ECONNREFUSED', config: { header: SECRET } })
  throw new TypeError(`run ${String(run)} of ${SECRET}`, { cause })
}

for (const [name, open] of Object.entries(ENGINES)) {
  describe(`real errors on ${name}`, () => {
    test('tasks.get shows the error of each run, the input and the context of a failed task', async (t) => {
      const { tasks, work, submit } = await setUp(t, await open(), failing)
      const id = await submit()
      const { failure } = await tasks.get(id, work) ?? {}
      assert.equal(failure?.attempt, 2)
      assert.equal(failure.error.name, 'TypeError')
      assert.equal(failure.error.message, `run 2 of ${SECRET}`)
      assert.match(failure.error.stack ?? '', /^TypeError: run 2 of pa55word\n +at failing .*real-errors/)
      assert.equal(failure.error.cause?.code, 'ECONNREFUSED')
      assert.equal(failure.error.cause.message, `connect ${SECRET}`)
      assert.equal('config' in failure.error.cause, false)
      assert.deepEqual(
        failure.earlier?.map(({ attempt, error }) => [attempt, error.message]),
        [[1, `run 1 of ${SECRET}`]],
      )
      assert.deepEqual(failure.input, { note: SECRET })
      assert.deepEqual(failure.context, { token: SECRET })
      assert.equal((await tasks.list()).items[0]?.failure?.attempt, 2)
    })

    test('a retry that succeeds removes the errors', async (t) => {
      const { tasks, submit } = await setUp(t, await open(), (run) => { if (run < 3) failing(run) })
      const id = await submit()
      assert.equal((await tasks.retry(id))?.failure?.attempt, 2)
      const end = await tasks.wait(id, { timeoutMs: 60_000 })
      assert.equal(end?.status, 'completed')
      assert.equal(end.failure, undefined)
    })

    test('no response, event, list or callback for clients contains any of it', async (t) => {
      const { tasks, sent, submit } = await setUp(t, await open(), failing)
      const id = await submit()
      const texts = [JSON.stringify(await tasks.get(id)), JSON.stringify({ ...await tasks.get(id) })]
      const mine = tasks.ownedBy('ann')
      assert.equal((await mine.get(id))?.failure, undefined)
      assert.equal((await mine.list()).items[0]?.failure, undefined)
      const owner = ({ headers }: HttpRequest) => headers['x-user'] as string | undefined
      for (const format of [undefined, jobFormat]) {
        const own = taskEndpoints(tasks, { statusPath: '/tasks/{id}', owner, ...format && { format } })
        const site = router({
          'GET /tasks': own.list,
          'GET|DELETE /tasks/{id}': own.status,
          'POST /tasks/{id}/retry': own.retry,
        })
        const ask = (method: string, path: string, headers: Record<string, string> = {}) => (
          inject(site, { method, path, headers: { 'x-user': 'ann', ...headers } })
        )
        const responses = [
          await ask('GET', '/tasks'), await ask('GET', `/tasks/${id}`),
          await ask('GET', `/tasks/${id}`, { accept: 'text/event-stream' }),
          await ask('DELETE', `/tasks/${id}`), await ask('POST', `/tasks/${id}/retry`),
        ]
        await tasks.wait(id, { timeoutMs: 60_000 })
        for (const seen of responses) texts.push(await seen.text(), JSON.stringify(seen.headers))
      }
      await eventually(() => sent.length > 0)
      for (const text of [...texts, ...sent]) {
        assert.ok(!text.includes(SECRET) && !text.includes('real-errors'), text)
      }
      assert.ok(texts.some((text) => text.includes('task_failed')))
    })

    test('an operator sees the errors in the status, in events and in the list', async (t) => {
      const { tasks, submit } = await setUp(t, await open(), failing)
      const id = await submit()
      const operators = operatorEndpoints(tasks, { statusPath: '/tasks/{id}', operator: () => true })
      const site = router({ 'GET /tasks': operators.list, 'GET /tasks/{id}': operators.status })
      const shown = await inject(site, { path: `/tasks/${id}` })
      const { failure, owner } = await shown.json<{ owner: string, failure?: FailureDetails }>()
      assert.equal(owner, 'ann')
      assert.equal(failure?.error.message, `run 2 of ${SECRET}`)
      assert.deepEqual(failure.input, { note: SECRET })
      for (const [path, accept] of [['/tasks', '*/*'], [`/tasks/${id}`, 'text/event-stream']] as const) {
        const seen = await inject(site, { path, headers: { accept } })
        assert.ok((await seen.text()).includes(`run 2 of ${SECRET}`), path)
      }
    })

    test('errors and inputs of any size and kind take some KiB', async (t) => {
      const long = 'é"\0\u001B\n😀'.repeat(100_000)
      const nested = (depth: number): Error => new Error(long, { cause: depth > 0 ? nested(depth - 1) : undefined })
      const cyclic = new Error('cyclic')
      cyclic.cause = cyclic
      const thrown: unknown[] = [
        nested(20),
        cyclic,
        long,
        undefined,
        null,
        7n,
        Symbol('sign'),
        Object.create(null),
        { message: 1 },
        new Proxy(new Error('x'), {
          get: () => {
            throw new Error('trap')
          },
        }),
        new AggregateError([new Error('a')], 'all'),
        new Error('half \uD800 of a pair'),
      ]
      const list = thrown.values()
      const { tasks, submit } = await setUp(t, await open(), () => { throw list.next().value })
      for (let at = 0; at < thrown.length; at += 2) {
        const id = await submit({ note: 'x'.repeat(100_000) })
        const { failure } = await tasks.get(id) ?? {}
        const size = Buffer.byteLength(JSON.stringify(failure))
        assert.ok(size > 0 && size < 17_000, `${String(size)} bytes`)
      }
    })

    test('storeErrors: false stores none of it', async (t) => {
      const { tasks, submit } = await setUp(t, await open(), failing, { storeErrors: false })
      const id = await submit()
      assert.equal((await tasks.get(id))?.failure, undefined)
    })
  })
}

test('an error that clients see unchanged has its stack and cause', async (t) => {
  const { tasks, submit } = await setUp(t, undefined, () => {
    throw httpError('conflict', { message: 'There is no paper.', cause: new Error('tray 2') })
  })
  const task = await tasks.get(await submit())
  assert.equal(task?.error?.message, 'There is no paper.')
  assert.equal(task.failure?.error.cause?.message, 'tray 2')
  assert.match(task.failure.error.stack ?? '', /real-errors/)
})
