// Processes that stop between any two steps of a callback.
import assert from 'node:assert/strict'
import { describe, test, type TestContext } from 'node:test'
import { callbacks, type CallbackReply, type CallbackRequest } from '../../../src/callbacks/index.js'
import { memory } from '../../../adapters/memory/index.js'
import { createTasks } from '../../../src/tasks/tasks.js'
import { defineTask } from '../../../src/tasks/definition/define.js'
import { HandEngine } from '../kit/hand-engine.js'
import { Spy, spyEngine, SpyStore } from '../kit/tasks.js'
import { deferred } from '../../kit/wait.js'

type Reply = CallbackReply | Promise<CallbackReply> | 'none'

function setUp(t: TestContext, replies: Reply[] = [], hand = new HandEngine()) {
  const spy = new Spy()
  const sent: CallbackRequest[] = []
  const heard: unknown[] = []
  const work = defineTask({ name: 'work', run: (input) => ({ message: String(input) }) })
  const tasks = createTasks({
    store: new SpyStore(memory().store, spy, true), engine: spyEngine(hand, spy), definitions: [work],
    onError: (error) => { heard.push(error) },
    callbacks: callbacks({
      secrets: () => ['whsec_MfKQ9r8GKYqrTwjUPD8ILPZIo2LaLaSw'],
      sender: { check: () => undefined, send: async (request) => {
        sent.push(request)
        const reply = replies.shift() ?? { status: 200 }
        return reply === 'none' ? aborted(request.signal) : reply
      } },
      backoff: { type: 'fixed', delayMs: 7000 }, attempts: 3,
    }),
  })
  t.after(() => tasks.close({ drainMs: 0 }))
  /** Submits a task and runs it. */
  const completed = async (id = 'one', input = 'done') => {
    await tasks.submit(work, input, { id, callbackUrl: 'https://example.com/hook' })
    await hand.deliver(id)
    return id
  }
  const callback = async (id: string) => (await tasks.get(id))?.callback
  return { tasks, work, hand, sent, heard, spy, completed, callback }
}

/** Rejects when a signal aborts. */
function aborted(signal: AbortSignal): Promise<never> {
  return new Promise((_, reject) => {
    signal.addEventListener('abort', () => { reject(signal.reason as Error) })
  })
}

/** Makes the pauses between two calls of an engine short. */
function hurry(t: TestContext): void {
  const real = setTimeout
  t.mock.method(globalThis, 'setTimeout', (run: () => void) => real(run, 1))
}

const delayOf = (hand: HandEngine, id: string) => (hand.at(id).callbackAt ?? Number.NaN) - hand.now()

describe('a crash', () => {
  test('cannot happen between the end of a task and its callback, because one write stores both', async (t) => {
    const { hand, spy, completed, callback } = setUp(t)
    const id = await completed()
    assert.deepEqual(spy.writes, [`create ${id}`, `change ${id}`])
    assert.ok(delayOf(hand, id) <= 0, 'not due with the final write')
    assert.deepEqual(await callback(id), { state: 'pending', attempts: 0 })
  })

  test('does not lose the callback of a task that the process has cancelled', async (t) => {
    const { tasks, work, hand, sent } = setUp(t)
    await tasks.submit(work, 1, { id: 'one', callbackUrl: 'https://example.com/hook' })
    await tasks.cancel('one')
    await hand.deliverCallback('one')
    assert.match(sent[0]?.body ?? '', /"type":"task.cancelled"/)
  })

  test('does not repeat an attempt that was recorded', async (t) => {
    const { hand, sent, completed, callback } = setUp(t, [{ status: 500 }])
    const id = await completed()
    await hand.deliverCallback(id)
    await assert.rejects(hand.deliverCallback(id), /no attempt is due/)
    assert.equal(sent.length, 1)
    assert.ok(Math.abs(delayOf(hand, id) - 7000) < 500, 'not after the back-off')
    const view = await callback(id)
    assert.deepEqual(
      [view?.state, view?.attempts, view?.lastStatus, view?.fault],
      ['pending', 1, 500, 'status'],
      'not shown',
    )
  })

  test('before the outcome of an attempt is stored repeats the attempt after a minute with the same id, and it counts once', async (t) => {
    // The engine is asked again for minutes.
    hurry(t)
    const { hand, sent, heard, spy, completed, callback } = setUp(t, [{ status: 500 }, { status: 500 }])
    const id = await completed()
    spy.fault = (call) => (call.startsWith('change') ? 'before' : undefined)
    await hand.deliverCallback(id)
    assert.equal(heard.length, 1, 'the operator is to know')
    spy.fault = () => undefined
    hand.pass(60_000)
    await hand.deliverCallback(id)
    assert.deepEqual(
      [sent.length, sent[0]?.headers['webhook-id'] === sent[1]?.headers['webhook-id'], sent[0]?.body === sent[1]?.body],
      [2, true, true],
      'not the same message',
    )
    assert.equal((await callback(id))?.attempts, 1)
  })

  test('changes nothing after the outcome was written, even if the response was lost', async (t) => {
    const { hand, spy, completed, callback } = setUp(t, [{ status: 500 }])
    const id = await completed()
    let left = 1
    spy.fault = (call) => (call.startsWith('change') && left-- > 0 ? 'after' : undefined)
    await hand.deliverCallback(id)
    assert.equal(left, -1)
    assert.deepEqual([(await callback(id))?.attempts, (await callback(id))?.lastStatus], [1, 500])
    assert.ok(Math.abs(delayOf(hand, id) - 7000) < 500)
  })

  test('lets the worker continue if it did not happen, and a late outcome of the worker changes nothing', async (t) => {
    const late = deferred<CallbackReply>()
    const { hand, completed, callback } = setUp(t, [late.promise, { status: 500 }, { status: 502 }])
    const id = await completed()
    const first = hand.deliverCallback(id)
    hand.pass(60_000)
    await hand.deliverCallback(id)
    hand.pass(8000)
    await hand.deliverCallback(id)
    late.resolve({ status: 404 })
    await first
    const view = await callback(id)
    assert.deepEqual([view?.state, view?.attempts, view?.lastStatus], ['pending', 2, 502], 'taken back')
  })

  test('in a process without callbacks leaves the callbacks to other processes', async (t) => {
    const { work, hand, sent, completed, callback } = setUp(t)
    const other = hand.another()
    const plain = createTasks({
      store: new SpyStore(memory().store, new Spy(), true),
      engine: other,
      definitions: [work],
    })
    t.after(() => plain.close({ drainMs: 0 }))
    const id = await completed()
    await other.deliverCallback(id)
    assert.equal((await callback(id))?.state, 'pending')
    hand.pass(60_000)
    await hand.deliverCallback(id)
    assert.deepEqual([sent.length, (await callback(id))?.state], [1, 'delivered'])
  })
})

describe('a callback', () => {
  test('is deleted with its task', async (t) => {
    const late = deferred<CallbackReply>()
    const { tasks, hand, sent, heard, completed } = setUp(t, [late.promise])
    const id = await completed()
    const attempt = hand.deliverCallback(id)
    assert.equal(await tasks.delete(id), true, 'not deleted')
    late.resolve({ fault: 'timeout' })
    await attempt
    assert.deepEqual([await tasks.get(id), sent.length, heard], [undefined, 1, []])
  })

  test('waits at least as long as Retry-After requests, for at most a day', async (t) => {
    const { hand, completed } = setUp(
      t,
      ['60', '1', '999999999', 'soon'].map((retryAfter) => ({ status: 429, retryAfter })),
    )
    for (const ms of [60_000, 7000, 86_400_000, 7000]) {
      const id = await completed(`after-${String(ms)}-${String(Math.random())}`)
      await hand.deliverCallback(id)
      const delay = delayOf(hand, id)
      assert.ok(delay <= ms && delay > ms - 1000, `${String(ms)}: ${String(delay)}`)
    }
    const date = setUp(t, [{ status: 429, retryAfter: new Date(Date.now() + 600_000).toUTCString() }])
    await date.completed()
    await date.hand.deliverCallback('one')
    const delay = delayOf(date.hand, 'one')
    assert.ok(delay <= 600_000 && delay > 595_000, String(delay))
  })

  test('is failed after its last attempt, and can be redelivered', async (t) => {
    const { tasks, hand, completed, callback } = setUp(t, [{ status: 500 }, { status: 500 }, { status: 500 }])
    const id = await completed()
    for (let attempt = 1; attempt <= 3; attempt++) {
      await hand.deliverCallback(id)
      hand.pass(8000)
    }
    assert.deepEqual(
      await callback(id),
      { state: 'failed', attempts: 3, fault: 'status', lastStatus: 500 },
      'not shown',
    )
    await assert.rejects(hand.deliverCallback(id), /no attempt is due/)
    assert.equal(await tasks.redeliver(id), true, 'not redelivered')
    await hand.deliverCallback(id)
    assert.equal((await callback(id))?.state, 'delivered', 'not delivered')
  })

  test('is sent at once if it is redelivered while it waits for its next attempt', async (t) => {
    const { tasks, work, hand, sent, callback } = setUp(t, [{ status: 500 }])
    await tasks.submit(work, 1, { id: 'one', callbackUrl: 'https://example.com/hook' })
    assert.equal(await tasks.redeliver('one'), false, 'there is nothing to tell of yet')
    await hand.deliver('one')
    await hand.deliverCallback('one')
    await tasks.redeliver('one')
    await hand.deliverCallback('one')
    assert.deepEqual([sent.length, (await callback('one'))?.state], [2, 'delivered'])
  })

  test('has another id for a later task with the same id, and does not get an earlier outcome', async (t) => {
    const late = deferred<CallbackReply>()
    const { tasks, hand, sent, completed, callback } = setUp(t, [late.promise])
    await completed('mine', 'one')
    const first = hand.deliverCallback('mine')
    assert.equal(await tasks.delete('mine'), true)
    await completed('mine', 'two')
    late.resolve({ status: 200 })
    await first
    assert.equal((await callback('mine'))?.state, 'pending')
    await hand.deliverCallback('mine')
    assert.equal((await callback('mine'))?.state, 'delivered')
    assert.notEqual(sent[0]?.headers['webhook-id'], sent[1]?.headers['webhook-id'])
  })

  test('is sent at once by another process if its process closes, and nothing is reported', async (t) => {
    const { tasks, hand, heard, completed, callback } = setUp(t, ['none'])
    const other = setUp(t, [], hand.another())
    const id = await completed()
    const attempt = hand.deliverCallback(id)
    await tasks.close({ drainMs: 0 })
    await attempt
    assert.deepEqual([(await callback(id))?.state, heard], ['pending', []])
    await other.hand.deliverCallback(id)
    assert.deepEqual([(await callback(id))?.state, other.sent.length], ['delivered', 1])
  })
})
