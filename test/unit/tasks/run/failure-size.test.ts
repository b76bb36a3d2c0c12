import assert from 'node:assert/strict'
import { test, type TestContext } from 'node:test'
import { toFetch } from '../../../../adapters/fetch/index.js'
import { HttpError } from '../../../../src/http/errors.js'
import { router } from '../../../../src/resources/router.js'
import { defineTask } from '../../../../src/tasks/definition/define.js'
import { taskEndpoints } from '../../../../src/tasks/http/endpoints.js'
import { bench, ended } from '../../kit/tasks.js'

const work = defineTask({
  name: 'work',
  run: (_, { progress }) => {
    progress(1, 2, `${'x'.repeat(498)}😀${'x'.repeat(5_000_000)}`)
    throw new HttpError(422, 'too_much', {
      message: `${'x'.repeat(2046)}😀${'x'.repeat(5_000_000)}`,
      details: Array.from({ length: 10_000 }, (_, at) => ({ pointer: `/${String(at)}`, message: 'x'.repeat(500) })),
    })
  },
})

function setUp(t: TestContext) {
  const made = bench({ definitions: [work] })
  t.after(made.close)
  const { submit } = taskEndpoints(made.tasks, { statusPath: '/tasks/{id}', owner: 'anyone' })
  const call = toFetch(router({ 'POST /work': submit(work) }), { onError: () => undefined })
  return { ...made, post: (headers: Record<string, string> = {}) => call(new Request('http://test/work', {
    method: 'POST', body: '1', headers: { 'content-type': 'application/json', ...headers },
  })) }
}

test('an HttpError with a message of 5 MB makes a record of some KiB, and its message is cut', async (t) => {
  const { tasks, store } = setUp(t)
  const { taskId: id } = await tasks.submit(work, 1)
  const { error, progress } = await ended(tasks, id)
  assert.equal(error?.message, `${'x'.repeat(2046)}…`)
  assert.equal(progress?.message, `${'x'.repeat(498)}…`)
  assert.ok(store.usage().bytes < 48_000, `${String(store.usage().bytes)} bytes`)
})

test('a synchronous response and its stored copy are cut', async (t) => {
  const { store, post } = setUp(t)
  for (const key of ['"one"', '"one"', undefined]) {
    const response = await post(key === undefined ? {} : { 'idempotency-key': key })
    const text = await response.text()
    assert.equal(response.status, 422)
    assert.ok(text.length < 20_000, `${String(text.length)} characters`)
    const { error, details } = JSON.parse(text) as { error: string, details: { message: string }[] }
    assert.match(error, /^x{2046}…$/)
    assert.match(details.at(-1)?.message ?? '', /^… and \d+ more$/)
  }
  assert.ok(store.usage().bytes < 64_000, `${String(store.usage().bytes)} bytes`)
})
