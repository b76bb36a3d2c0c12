// What a process that stops does with the runs of direct answers.
import assert from 'node:assert/strict'
import { describe, test, type TestContext } from 'node:test'
import { isWorkerClosing } from '../../../src/engine/runs.js'
import { toFetch } from '../../../adapters/fetch/index.js'
import { createTasks } from '../../../src/tasks/tasks.js'
import { defineTask } from '../../../src/tasks/definition/define.js'
import { taskEndpoints } from '../../../src/tasks/http/endpoints.js'
import { BINDINGS, members, site } from '../kit/tasks.js'
import { deferred, eventually, within } from '../../kit/wait.js'

async function refused(response: Response): Promise<void> {
  assert.deepEqual(
    [response.status, response.headers.get('retry-after'), (await members(response))['code']],
    [503, '5', 'shutting_down'],
  )
}

/** Stopped while it ran: nobody is asked to send again what may have been done. */
async function stopped(response: Response): Promise<void> {
  assert.deepEqual(
    [response.status, response.headers.get('retry-after'), (await members(response))['code']],
    [503, null, 'shutting_down'],
  )
}

/** Runs until its gate is opened, and tells of its signal. */
function gated() {
  const gate = deferred()
  const signals: AbortSignal[] = []
  const order: string[] = []
  const work = defineTask({
    name: 'gated',
    run: async (_, { signal }) => {
      signals.push(signal)
      await gate.promise
      order.push('run')
      return { message: 'done' }
    },
  })
  return { gate, signals, order, work }
}

/** How long all timers take that are made from now on. */
function spyOnTimers(t: TestContext): number[] {
  const real = setTimeout
  const waits: number[] = []
  t.mock.method(globalThis, 'setTimeout', (run: () => void, ms: number) => { waits.push(ms); return real(run, ms) })
  return waits
}

for (const binding of BINDINGS) {
  describe(`a close during synchronous runs, over ${binding}`, () => {
    test('lets the runs finish, counts them, and accepts no new ones', async (t) => {
      const { gate, signals, order, work } = gated()
      const { call, start, tasks } = await site(t, binding, work)
      const answer = call('POST', '/api/work', { body: {} })
      await eventually(() => signals.length === 1)
      assert.deepEqual(await tasks.health(), { ok: true, pausedPools: [], running: 1, waiting: 0 })
      const closing = tasks.close({ drainMs: 60_000 }).then(() => order.push('closed'))
      await refused(await call('POST', '/api/work', { body: {} }))
      await refused(await call('POST', '/api/work', { body: {}, headers: { 'idempotency-key': 'late' } }))
      await refused(await start())
      assert.deepEqual([order, signals.length], [[], 1])
      gate.resolve()
      assert.equal((await answer).status, 200)
      await within(closing)
      assert.deepEqual([order, signals[0]?.aborted], [['run', 'closed'], false])
      assert.deepEqual(await tasks.health(), { ok: false, pausedPools: [], running: 0, waiting: 0 })
    })

    test('aborts the runs after the drain time, waits for their end, and responds to their clients', async (t) => {
      const order: string[] = []
      const cleaned = deferred()
      const reasons: unknown[] = []
      const work = defineTask({
        name: 'tidy',
        run: (_, { signal }) => new Promise((_, reject) => {
          order.push('begun')
          signal.addEventListener('abort', () => {
            reasons.push(signal.reason)
            cleaned.promise.then(() => { order.push('cleaned'); reject(signal.reason as Error) }, reject)
          })
        }),
      })
      const { call, tasks, noise } = await site(t, binding, work)
      const answer = call('POST', '/api/work', { body: {} })
      await eventually(() => order.length === 1)
      const closing = tasks.close({ drainMs: 0 }).then(() => order.push('closed'))
      await eventually(() => reasons.length === 1)
      assert.equal(isWorkerClosing(reasons[0]), true)
      cleaned.resolve()
      await stopped(await within(answer))
      await within(closing)
      assert.deepEqual(order, ['begun', 'cleaned', 'closed'])
      assert.equal(noise.filter(isWorkerClosing).length, 0)
    })

    test('does not wait for a run that ignores its signal', async (t) => {
      const begun = deferred()
      const deaf = defineTask({ name: 'deaf', run: () => { begun.resolve(); return new Promise(() => undefined) } })
      const { call, tasks } = await site(t, binding, deaf)
      const answer = call('POST', '/api/work', { body: {} })
      await within(begun.promise)
      await within(tasks.close({ drainMs: 0 }))
      await stopped(await within(answer))
      assert.equal((await tasks.health()).running, 0)
    })

    test('interrupts the task of a run with an Idempotency-Key, and a retry gets the same response', async (t) => {
      const { gate, signals, work } = gated()
      const { call, tasks, store, engine } = await site(t, binding, work)
      t.after(() => { gate.resolve() })
      const answer = call('POST', '/api/work', { body: {}, headers: { 'idempotency-key': 'mine' } })
      await eventually(() => signals.length === 1)
      await within(tasks.close({ drainMs: 0 }))
      const response = await within(answer)
      assert.deepEqual([response.status, (await members(response))['code']], [500, 'task_interrupted'])
      const later = createTasks({ engine, store, definitions: [work], worker: false })
      t.after(() => later.close({ drainMs: 0 }))
      const handle = toFetch(taskEndpoints(later, { statusPath: '/api/status/{id}', owner: 'anyone' }).submit(work))
      const again = await handle(new Request('http://x/api/work', {
        method: 'POST', body: '{}', headers: { 'content-type': 'application/json', 'idempotency-key': 'mine' },
      }))
      assert.deepEqual(
        [again.status, again.headers.get('idempotent-replayed'), (await members(again))['code']],
        [500, 'true', 'task_interrupted'],
      )
      assert.equal(signals.length, 1)
    })
  })
}

describe('a close of tasks', () => {
  test('does not start a run if the engine accepts it too late', async (t) => {
    const { signals, work } = gated()
    const { call, tasks, spy, store } = await site(t, 'fetch', work)
    const [asked, answered] = [deferred(), deferred()]
    spy.fault = (name) => {
      if (!name.startsWith('create')) return undefined
      asked.resolve()
      return answered.promise
    }
    const answer = call('POST', '/api/work', { body: {}, headers: { 'idempotency-key': 'mine' } })
    await within(asked.promise)
    await within(tasks.close({ drainMs: 0 }))
    answered.resolve()
    await refused(await within(answer))
    assert.deepEqual([signals.length, store.usage().entries], [0, 0])
  })

  test('gives queued and synchronous runs the same drain time in parallel', async (t) => {
    for (const [drainMs, each] of [[12_345, 12_345], [Infinity, 2 ** 31 - 1]] as const) {
      const { gate, signals, work } = gated()
      const { call, start, tasks } = await site(t, 'fetch', work)
      const answer = call('POST', '/api/work', { body: {} })
      await start()
      await eventually(() => signals.length === 2)
      const waits = spyOnTimers(t)
      const closing = tasks.close({ drainMs })
      t.mock.restoreAll()
      assert.deepEqual([...new Set(waits)], [each])
      gate.resolve()
      assert.equal((await within(answer)).status, 200)
      await within(closing)
    }
  })

  test('responds to a client that has disconnected', async (t) => {
    const { gate, signals, work } = gated()
    const { call } = await site(t, 'fetch', work)
    t.after(() => { gate.resolve() })
    const client = new AbortController()
    const answer = call('POST', '/api/work', { body: {}, signal: client.signal })
    await eventually(() => signals.length === 1)
    client.abort()
    const response = await within(answer)
    assert.deepEqual([response.status, await response.text()], [503, ''])
  })
})
