import assert from 'node:assert/strict'
import { describe, test } from 'node:test'
import { memory, type Clock } from '../../../adapters/memory/index.js'
import { systemClock } from '../../../src/runtime/timers.js'
import { createTasks, coreOf } from '../../../src/tasks/tasks.js'
import { defineTask } from '../../../src/tasks/definition/define.js'
import { taskEndpoints } from '../../../src/tasks/http/endpoints.js'
import { toFetch } from '../../../adapters/fetch/index.js'
import { HttpError } from '../../../src/http/errors.js'
import { ended } from '../../unit/kit/tasks.js'
import { BINDINGS, members, site } from '../kit/tasks.js'
import { deferred, eventually } from '../../kit/wait.js'

const key = (value: string) => ({ 'idempotency-key': value })

function counted() {
  const runs: unknown[] = []
  const work = defineTask({
    name: 'counted',
    run: (input) => {
      runs.push(input)
      return { message: `run ${String(runs.length)}` }
    },
  })
  return { runs, work }
}

for (const binding of BINDINGS) {
  describe(`Idempotency-Key over ${binding}`, () => {
    test('gets the same task, 202 and Idempotent-Replayed for the same key and body, quoted or bare', async (t) => {
      const { work, runs } = counted()
      const { start, tasks } = await site(t, binding, work)
      const first = await start({ a: 1 }, key('k1'))
      assert.deepEqual([first.status, first.headers.get('idempotent-replayed')], [202, null])
      const { taskId } = await members(first)
      const soon = await start({ a: 1 }, key('"k1"'))
      await ended(tasks, String(taskId))
      const late = await start({ a: 1 }, key('k1'))
      for (const again of [soon, late]) {
        assert.deepEqual([again.status, again.headers.get('idempotent-replayed')], [202, 'true'])
        assert.equal(again.headers.get('location'), first.headers.get('location'))
        assert.equal(again.headers.get('content-location'), first.headers.get('location'))
      }
      const shown = await members(late)
      assert.deepEqual([shown['taskId'], shown['status'], late.headers.get('retry-after')], [taskId, 'completed', null])
      assert.equal(runs.length, 1)
    })

    test('gives clients that differ only by a cookie their own tasks and results', async (t) => {
      const { work, runs } = counted()
      const { start } = await site(t, binding, work)
      for (const prefer of ['respond-async, wait=10', 'x']) {
        const begin = async (cookie: string) => {
          const response = await start({}, { ...key(`k${String(prefer.length)}`), prefer, cookie })
          return [response.status, response.headers.get('idempotent-replayed'), await response.text()] as const
        }
        const ann = await begin('session=ann')
        const bob = await begin('session=bob')
        assert.deepEqual([ann.slice(0, 2), bob.slice(0, 2)], [[200, null], [200, null]])
        assert.notEqual(ann[2], bob[2])
        assert.deepEqual(await begin('session=ann'), [200, 'true', ann[2]])
      }
      assert.equal(runs.length, 4)
    })

    test('gets a 400 if it is malformed, even in a synchronous request, and starts nothing', async (t) => {
      const { work, runs } = counted()
      const { start, spy } = await site(t, binding, work)
      for (const value of ['""', '"a', 'a b', 'a, b', 'x'.repeat(256)]) {
        for (const prefer of ['respond-async', 'x']) {
          const response = await start({}, { ...key(value), prefer })
          assert.deepEqual(
            [response.status, (await members(response))['code']],
            [400, 'invalid_idempotency_key'],
            value,
          )
        }
      }
      assert.deepEqual([spy.calls, runs], [[], []])
    })

    test('returns a failure again with its Retry-After: in a synchronous response, to its retry and after a wait', async (t) => {
      const limited = defineTask({
        name: 'limited',
        run: () => {
          throw new HttpError(429, 'upstream_limit', { headers: { 'retry-after': '7', 'x-other': 'a' } })
        },
      })
      const { start } = await site(t, binding, limited)
      for (const fields of [
        { ...key('k'), prefer: 'x' },
        { ...key('k'), prefer: 'x' },
        { prefer: 'respond-async, wait=10' },
      ]) {
        const response = await start({}, fields)
        assert.deepEqual(
          [response.status, response.headers.get('retry-after'), response.headers.get('x-other')],
          [429, '7', null],
        )
      }
    })

    test('gets a 422 with another body, whatever the preference', async (t) => {
      const { work, runs } = counted()
      const { start } = await site(t, binding, work)
      await start({ a: 1 }, key('async'))
      await start({ a: 1 }, { ...key('sync'), prefer: 'x' })
      for (const name of ['async', 'sync']) {
        for (const prefer of ['respond-async', 'x']) {
          const response = await start({ a: 2 }, { ...key(name), prefer })
          assert.deepEqual([response.status, (await members(response))['code']], [422, 'idempotency_key_reused'])
        }
      }
      await eventually(() => runs.length === 2)
    })

    test('belongs to its caller, method and path', async (t) => {
      const { work, runs } = counted()
      const { start, call } = await site(t, binding, work)
      const ids = new Set<unknown>()
      ids.add((await members(await start({}, key('k'))))['taskId'])
      for (const user of ['ann', 'bob'])
        ids.add((await members(await start({}, { ...key('k'), 'x-user': user })))['taskId'])
      ids.add(
        (
          await members(
            await call('POST', '/api/other', { body: {}, headers: { ...key('k'), prefer: 'respond-async' } }),
          )
        )['taskId'],
      )
      ids.add((await members(await start({}, key('K'))))['taskId'])
      assert.equal(ids.size, 5)
      await eventually(() => runs.length === 5)
    })

    test('makes one task of 30 concurrent requests', async (t) => {
      const { work, runs } = counted()
      const { start, tasks } = await site(t, binding, work)
      const answers = await Promise.all(Array.from({ length: 30 }, () => start({ a: 1 }, key('k'))))
      assert.ok(answers.every(({ status }) => status === 202), String(answers.map(({ status }) => status)))
      const ids = new Set(answers.map(({ headers }) => headers.get('location')))
      assert.equal(ids.size, 1)
      assert.equal(answers.filter(({ headers }) => headers.get('idempotent-replayed') === null).length, 1)
      await ended(tasks, String((await members(answers[0] as Response))['taskId']))
      assert.equal(runs.length, 1)
    })

    test('makes a retry of a running synchronous request wait, and get its result as 200', async (t) => {
      const gate = deferred()
      let runs = 0
      const slow = defineTask({
        name: 'slow',
        run: async () => {
          runs++
          await gate.promise
          return { message: `run ${String(runs)}` }
        },
      })
      const { start, tasks } = await site(t, binding, slow)
      const direct = () => start({}, { ...key('k'), prefer: 'x' })
      const first = direct()
      await eventually(() => runs === 1)
      const running = await start({}, { ...key('k'), prefer: 'respond-async' })
      assert.deepEqual(
        [running.status, running.headers.get('retry-after'), (await members(running))['code']],
        [409, '1', 'idempotent_request_running'],
      )
      const waiting = [direct(), start({}, { ...key('k'), prefer: 'respond-async, wait=20' })]
      await eventually(() => coreOf(tasks).waiters.size === 3)
      gate.resolve()
      assert.deepEqual([(await first).status, (await first).headers.get('idempotent-replayed')], [200, null])
      waiting.push(direct(), start({}, { ...key('k'), prefer: 'respond-async' }))
      for (const again of await Promise.all(waiting)) {
        assert.deepEqual(
          [again.status, again.headers.get('idempotent-replayed'), await members(again)],
          [200, 'true', { message: 'run 1' }],
        )
      }
      assert.equal(runs, 1)
    })

    test('gets a response of the kind of the first request, and each request decides how long it waits', async (t) => {
      const gate = deferred()
      const slow = defineTask({ name: 'slow', run: async () => { await gate.promise; return { message: 'done' } } })
      const { start, tasks } = await site(t, binding, slow)
      const { taskId } = await members(await start({}, key('k')))
      assert.equal((await start({}, { ...key('k'), prefer: 'x' })).status, 202)
      const waiting = start({}, { ...key('k'), prefer: 'respond-async, wait=20' })
      await eventually(() => coreOf(tasks).waiters.size === 1)
      gate.resolve()
      const done = await waiting
      assert.deepEqual(
        [done.status, done.headers.get('idempotent-replayed'), await members(done)],
        [200, 'true', { message: 'done' }],
      )
      const late = await start({}, { ...key('k'), prefer: 'x' })
      assert.deepEqual([late.status, (await members(late))['taskId']], [202, taskId])
    })

    test('ignores the order of properties and the white space of a body', async (t) => {
      const { work, runs } = counted()
      const { call } = await site(t, binding, work)
      const send = (body: unknown) => call('POST', '/api/work', { body, headers: key('k') })
      assert.equal((await send({ a: 1, b: { c: [1, { x: 1, y: 2 }], d: null } })).status, 200)
      assert.equal(
        (await send({ b: { d: null, c: [1, { y: 2, x: 1 }] }, a: 1 })).headers.get('idempotent-replayed'),
        'true',
      )
      assert.equal((await send({ b: { d: null, c: [{ y: 2, x: 1 }, 1] }, a: 1 })).status, 422)
      assert.equal(
        (
          await call('POST', '/api/work?more', {
            body: { a: 1, b: { c: [1, { x: 1, y: 2 }], d: null } },
            headers: key('k'),
          })
        ).status,
        422,
        'the query counts',
      )
      assert.equal(runs.length, 1)
    })

    test('returns the failure of a synchronous request again', async (t) => {
      for (const thrown of [
        new HttpError(409, 'mine', {
          message: 'Mine.',
          details: [{ pointer: '/a', message: 'm' }],
          headers: { 'x-more': '1' },
        }),
        new Error('secret'),
      ]) {
        let runs = 0
        const { start } = await site(
          t,
          binding,
          defineTask({
            name: 'broken',
            run: () => {
              runs++
              throw thrown
            },
          }),
        )
        const direct = () => start({}, { ...key('k'), prefer: 'x' })
        const [first, again] = [await direct(), await direct()]
        assert.equal(again.headers.get('idempotent-replayed'), 'true')
        assert.equal(again.status, first.status)
        assert.equal(again.headers.get('x-more'), first.headers.get('x-more'))
        assert.deepEqual(await members(again), await members(first))
        assert.equal(runs, 1)
      }
    })

    test('lets a synchronous request that takes too long continue, and a retry gets its result', async (t) => {
      const gate = deferred()
      const signals: AbortSignal[] = []
      const slow = defineTask({
        name: 'slow',
        run: async (_, { signal }) => {
          signals.push(signal)
          await gate.promise
          return { message: 'done' }
        },
      })
      const { start } = await site(t, binding, slow, { endpoints: { syncTimeoutMs: 30 } })
      const direct = () => start({}, { ...key('k'), prefer: 'x' })
      for (let n = 0; n < 2; n++) {
        const late = await direct()
        assert.deepEqual(
          [late.status, late.headers.get('retry-after'), (await members(late))['code']],
          [503, '1', 'sync_timeout'],
        )
      }
      gate.resolve()
      await eventually(async () => (await direct()).status === 200)
      const again = await direct()
      assert.deepEqual([again.headers.get('idempotent-replayed'), await members(again)], ['true', { message: 'done' }])
      assert.deepEqual(signals.map(({ aborted }) => aborted), [false])
    })

    test('does not repeat finished synchronous work if its end cannot be written for a while', async (t) => {
      const { work, runs } = counted()
      const { start, spy } = await site(t, binding, work, { endpoints: { syncTimeoutMs: 200 } })
      const direct = () => start({}, { ...key('k'), prefer: 'x' })
      spy.fault = (call) => (call.startsWith('change') ? 'before' : undefined)
      assert.equal((await direct()).status, 503)
      spy.fault = () => undefined
      await eventually(async () => (await direct()).status === 200)
      assert.deepEqual(await members(await direct()), { message: 'run 1' })
      assert.equal(runs.length, 1)
    })

    test('returns the task with its key to a synchronous request, even if no client got its 202', async (t) => {
      const { work, runs } = counted()
      const { start, tasks, spy } = await site(t, binding, work)
      spy.fault = (call) => (call.startsWith('create') ? 'after' : undefined)
      assert.equal((await start({}, key('k'))).status, 503)
      spy.fault = () => undefined
      const again = await start({}, { ...key('k'), prefer: 'x' })
      assert.deepEqual([again.status, again.headers.get('preference-applied')], [202, null])
      const { taskId } = await members(again)
      await ended(tasks, String(taskId))
      assert.equal((await members(await start({}, key('k'))))['taskId'], taskId)
      assert.equal(runs.length, 1)
    })

    test('accepts a retry of a task that was rejected by a full queue', async (t) => {
      const gate = deferred()
      const slow = defineTask({ name: 'slow', run: () => gate.promise })
      const { start, tasks } = await site(t, binding, slow, { concurrency: 1, maxUnfinished: 1 })
      await start()
      await eventually(async () => (await tasks.health()).running === 1)
      const refused = await start({}, key('k'))
      assert.equal(refused.status, 503)
      gate.resolve()
      await eventually(async () => (await tasks.health()).running === 0)
      const again = await start({}, key('k'))
      assert.equal(again.status, 202)
      const { taskId } = await members(again)
      assert.equal((await ended(tasks, String(taskId))).status, 'completed')
    })
  })
}

describe('a process that dies', () => {
  /** A process: from the n-th call on its store and queue answer nothing. Its record and claim stay. */
  for (const when of ['before', 'after'] as const) {
    test(`${when} any of its calls loses nothing acknowledged, and a retry creates no second task`, async (t) => {
      let longest = 0
      for (let n = 1; n <= Math.max(longest, 1); n++) {
        const { work, runs } = counted()
        const { start, tasks, spy } = await site(t, 'fetch', work)
        let dead = false
        spy.fault = (call, at) => {
          // What the worker does is another process's life.
          if (at < n) return undefined
          const first = !dead
          dead = true
          return first ? when : 'before'
        }
        const first = await start({ a: 1 }, key('k'))
        if (!dead) break
        longest = n + 1
        spy.fault = () => undefined
        const retries = [await start({ a: 1 }, key('k')), await start({ a: 1 }, key('k'))]
        assert.deepEqual(retries.map(({ status }) => status), [202, 202], `${when} ${String(n)}`)
        const ids = await Promise.all(
          [...(first.status === 202 ? [first] : []), ...retries].map(
            async (response) => (await members(response))['taskId'],
          ),
        )
        assert.equal(new Set(ids).size, 1, `${when} ${String(n)}`)
        assert.equal((await ended(tasks, String(ids[0]))).status, 'completed')
        await new Promise(setImmediate)
        assert.equal(runs.length, 1, `${when} ${String(n)}: ${spy.calls.join()}`)
      }
      assert.ok(longest > 1, 'no call was tried')
    })
  }

  test('an Idempotency-Key lives as long as its task, even if the task starts in 30 days, and is then free', async (t) => {
    const DAY = 86_400_000
    const began = Date.now()
    let now = began
    const clock: Clock = { ...systemClock, now: () => now }
    const { engine, store } = memory({ clock })
    const { work, runs } = counted()
    const tasks = createTasks({
      engine,
      store,
      definitions: [work],
      worker: false,
      retentionMs: 10 * DAY,
      pendingMs: DAY,
    })
    t.after(() => tasks.close({ drainMs: 0 }))
    const endpoints = taskEndpoints(tasks, {
      statusPath: '/s/{id}',
      owner: 'anyone',
      startAt: (body) => (body as { at: string }).at,
    })
    const handle = toFetch(endpoints.submit(work))
    const start = async () => {
      const response = await handle(
        new Request('http://x/work', {
          method: 'POST',
          body: JSON.stringify({ at: 'P30D' }),
          headers: { 'content-type': 'application/json', 'prefer': 'respond-async', ...key('k') },
        }),
      )
      return [response.status, response.headers.get('idempotent-replayed'), (await members(response))['taskId']]
    }
    const first = await start()
    assert.deepEqual(first.slice(0, 2), [202, null])
    for (const days of [8, 29, 30.9]) {
      now = began + days * DAY
      assert.deepEqual(await start(), [202, 'true', first[2]], String(days))
    }
    now = began + 32 * DAY
    const next = await start()
    assert.deepEqual(next.slice(0, 2), [202, null])
    assert.notEqual(next[2], first[2])
    assert.deepEqual(runs, [])
  })
})
