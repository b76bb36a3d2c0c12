// An Idempotency-Key keeps its claim while a record of its task may exist.
import assert from 'node:assert/strict'
import { describe, test } from 'node:test'
import { MemoryStore } from '../../../adapters/memory/index.js'
import { taskEndpoints } from '../../../src/tasks/http/endpoints.js'
import { createTasks } from '../../../src/tasks/tasks.js'
import { defineTask } from '../../../src/tasks/definition/define.js'
import { inject } from '../../../src/testing/index.js'
import { HandQueue } from '../tasks/hand-queue.js'
import { Spy, SpyStore } from '../tasks/kit.js'

class FullQueue extends HandQueue {
  full = true
  override async enqueue(...args: Parameters<HandQueue['enqueue']>) {
    // The type of HandQueue knows no full queue.
    return this.full ? 'full' as never : super.enqueue(...args)
  }
}

function setUp() {
  const spy = new Spy()
  const queue = new FullQueue(true)
  const work = defineTask({ name: 'work', run: () => 'done' })
  const tasks = createTasks({
    store: new SpyStore(new MemoryStore(), spy, true), queue, definitions: [work], onError: () => undefined,
  })
  const { submit } = taskEndpoints(tasks, { statusPath: '/tasks/{id}', owner: 'anyone' })
  const post = async () => {
    const headers = { 'prefer': 'respond-async', 'idempotency-key': 'one', 'content-type': 'application/json' }
    const response = await inject(submit(work), { method: 'POST', path: '/work', headers, body: {}, onError: () => undefined })
    return { status: response.status, body: await response.json<{ readonly code?: string }>() }
  }
  const created = () => new Set(spy.calls.filter((call) => /^create task/.test(call)))
  return { spy, queue, post, created }
}

describe('a keyed request whose enqueue was refused', () => {
  test('starts one task, which the retry resumes, if the deletion of its record failed', async () => {
    const { spy, queue, post, created } = setUp()
    spy.fault = (call) => (call.startsWith('delete task') ? 'before' : undefined)
    assert.equal((await post()).status, 503)
    spy.fault = () => undefined
    queue.full = false
    assert.equal((await post()).status, 202)
    assert.deepEqual([created().size, queue.jobs.length], [1, 1])
  })

  test('starts one task if the queue is still full for the retry', async () => {
    const { spy, queue, post, created } = setUp()
    spy.fault = (call) => (call.startsWith('delete task') ? 'before' : undefined)
    assert.equal((await post()).status, 503)
    assert.equal((await post()).status, 503)
    spy.fault = () => undefined
    queue.full = false
    assert.equal((await post()).status, 202)
    assert.deepEqual([created().size, queue.jobs.length], [1, 1])
  })

  test('releases its key if the record is deleted: the retry starts a new task', async () => {
    const { queue, post, created } = setUp()
    assert.equal((await post()).body.code, 'queue_full')
    queue.full = false
    assert.equal((await post()).status, 202)
    assert.deepEqual([created().size, queue.jobs.length], [2, 1])
  })
})
