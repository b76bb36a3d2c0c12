import assert from 'node:assert/strict'
import { describe, test } from 'node:test'
import { HttpError, httpError } from '../../../src/http/errors.js'
import { jsonSchema } from '../../../src/schema/json-schema.js'
import { defineTask } from '../../../src/tasks/definition/define.js'
import { jobFormat } from '../../../src/tasks/http/formats.js'
import { ended } from '../../unit/kit/tasks.js'
import { BINDINGS, members, site } from '../kit/tasks.js'
import { coreOf } from '../../../src/tasks/tasks.js'
import { deferred, eventually, within } from '../../kit/wait.js'

const quick = defineTask({ name: 'quick', run: () => ({ message: 'done', n: 1 }) })
const gated = (result: unknown = { message: 'done' }) => {
  const gate = deferred()
  const runs: number[] = []
  const signals: AbortSignal[] = []
  const work = defineTask({
    name: 'gated',
    run: async (_, { attempt, signal }) => {
      runs.push(attempt)
      signals.push(signal)
      await gate.promise
      return result
    },
  })
  return { gate, runs, signals, work }
}

for (const binding of BINDINGS) {
  describe(`tasks over ${binding}`, () => {
    test('SPEC 4.6.1: get a 202 at once with Prefer: respond-async, before the work is done', async (t) => {
      const { gate, work } = gated()
      const { start } = await site(t, binding, work)
      const response = await within(start())
      assert.equal(response.status, 202)
      gate.resolve()
    })

    test('SPEC 4.6.2: have the status path below the mount path in Location and Content-Location', async (t) => {
      const { call, start } = await site(t, binding, quick, { mountPath: '/v1' })
      const response = await start()
      const { taskId } = await members(response)
      assert.equal(response.headers.get('location'), `/v1/api/status/${String(taskId)}`)
      assert.equal(response.headers.get('content-location'), response.headers.get('location'))
      assert.match(response.headers.get('vary') ?? '', /\bPrefer\b/)
      assert.equal(response.headers.get('preference-applied'), 'respond-async')
      assert.match(response.headers.get('retry-after') ?? '', /^[0-9]+$/)
      assert.equal((await call('GET', response.headers.get('location') ?? '')).status, 200)
    })

    test('SPEC 4.6.3: have the acknowledgement in the 202, which equals a GET of the status', async (t) => {
      const { call, start } = await site(t, binding, quick, { worker: false })
      const response = await start()
      const body = await members(response)
      assert.equal(typeof body['taskId'], 'string')
      assert.equal(typeof body['message'], 'string')
      assert.equal(body['status'], 'processing')
      const status = await call('GET', response.headers.get('location') ?? '')
      assert.deepEqual(await members(status), body)
    })

    test('SPEC 4.6.4: continue in the background, even if the client has left', async (t) => {
      const { gate, work, signals } = gated()
      const { start, tasks } = await site(t, binding, work)
      const { taskId } = await members(await start())
      await eventually(() => signals.length === 1)
      gate.resolve()
      assert.deepEqual((await ended(tasks, String(taskId))).result, { message: 'done' })
      assert.equal(signals[0]?.aborted, false)
    })

    test('SPEC 4.6.5: end before the response without the preference, and nothing is stored', async (t) => {
      const { call, spy } = await site(t, binding, quick)
      for (const prefer of [
        undefined, 'wait=5', 'respond-asynchronously', 'respond-async=1', 'return=minimal',
        '"respond-async"',
      ]) {
        const response = await call('POST', '/api/work', { body: {}, headers: prefer === undefined ? {} : { prefer } })
        assert.equal(response.status, 200, prefer)
        assert.deepEqual(await members(response), { message: 'done', n: 1 })
        assert.match(response.headers.get('vary') ?? '', /\bPrefer\b/)
        assert.equal(response.headers.get('location'), null)
        assert.equal(response.headers.get('preference-applied'), null)
      }
      assert.deepEqual(spy.calls, [])
    })

    test('read the preference as RFC 7240 says', async (t) => {
      const { start } = await site(t, binding, quick)
      for (const prefer of [
        'Respond-Async', 'foo="a, b", respond-async; x=1', 'wait=0, respond-async',
        'respond-async, respond-async=no',
      ]) {
        assert.equal((await start({}, { prefer })).status, 202, prefer)
      }
    })

    test('always get a 202 with respond: always, and send no Preference-Applied', async (t) => {
      const { call } = await site(t, binding, quick, { submit: { respond: 'always' } })
      const plain = await call('POST', '/api/work', { body: {} })
      assert.deepEqual([plain.status, plain.headers.get('preference-applied')], [202, null])
      const asked = await call('POST', '/api/work', { body: {}, headers: { prefer: 'respond-async, wait=5' } })
      assert.deepEqual([asked.status, asked.headers.get('preference-applied')], [202, 'respond-async'])
    })

    test('have a status resource with ETag, 304, Cache-Control, Vary, Sunset, and Retry-After while pending', async (t) => {
      const { gate, work } = gated()
      const { call, start, tasks } = await site(t, binding, work, { retentionMs: 3_600_000 })
      const { taskId } = await members(await start())
      const path = `/api/status/${String(taskId)}`
      await eventually(async () => (await coreOf(tasks).read(String(taskId)))?.status === 'processing')
      const pending = await call('GET', path)
      assert.equal(pending.headers.get('cache-control'), 'private, no-cache')
      assert.equal(pending.headers.get('vary'), 'Prefer, Accept, Authorization')
      assert.equal(pending.headers.get('retry-after'), '1')
      assert.ok(Date.parse(pending.headers.get('sunset') ?? '') > Date.now() + 6 * 86_400_000)
      const etag = pending.headers.get('etag') ?? ''
      assert.match(etag, /^"[^"]+"$/)
      const same = await call('GET', path, { headers: { 'if-none-match': `"x", W/${etag}` } })
      assert.equal(same.status, 304)
      assert.equal(await same.text(), '')
      assert.equal(same.headers.get('etag'), etag)
      assert.equal(same.headers.get('vary'), pending.headers.get('vary'))
      gate.resolve()
      await ended(tasks, String(taskId))
      const done = await call('GET', path, { headers: { 'if-none-match': etag } })
      assert.equal(done.status, 200)
      assert.notEqual(done.headers.get('etag'), etag)
      assert.equal(done.headers.get('retry-after'), null)
      const sunset = Date.parse(done.headers.get('sunset') ?? '')
      assert.ok(Math.abs(sunset - Date.now() - 3_600_000) < 5000)
      const body = await members(done)
      assert.deepEqual([body['status'], body['result']], ['completed', { message: 'done' }])
    })

    test('respond to HEAD as to GET, without a body', async (t) => {
      const { call, start } = await site(t, binding, quick, { worker: false })
      const path = (await start()).headers.get('location') ?? ''
      const [get, head] = [await call('GET', path), await call('HEAD', path, { headers: { prefer: 'wait=30' } })]
      assert.equal(head.status, 200)
      assert.equal(await head.text(), '')
      for (const name of ['etag', 'content-type', 'vary', 'cache-control', 'sunset', 'retry-after'])
        assert.equal(head.headers.get(name), get.headers.get(name), name)
      assert.equal((await call('HEAD', '/api/status/unknown')).status, 404)
      assert.equal((await call('PUT', path)).status, 405)
    })

    test('SPEC 4.7: have jobId and statusUrl in the 202 of the job format, and id and state in the status', async (t) => {
      const { call, start, tasks } = await site(t, binding, quick, { endpoints: { format: jobFormat }, concurrency: 1 })
      const response = await start()
      const body = await members(response)
      assert.equal(body['statusUrl'], response.headers.get('location'))
      assert.deepEqual([body['state'], body['id']], ['queued', body['jobId']])
      await ended(tasks, String(body['jobId']))
      const status = await members(await call('GET', String(body['statusUrl'])))
      assert.deepEqual(
        [status['id'], status['state'], status['result']],
        [body['jobId'], 'completed', { message: 'done', n: 1 }],
      )
      const missing = await call('GET', '/api/status/nothing')
      assert.deepEqual(
        [missing.status, await members(missing)],
        [404, { error: 'No such job.', code: 'job_not_found' }],
      )
    })

    test('SPEC 4.6.poll: get a 404 with the same bytes for unknown, expired, malformed ids and ids of other owners', async (t) => {
      const { call, start, tasks } = await site(t, binding, quick)
      const foreign = (await start({}, { 'x-user': 'ann' })).headers.get('location') ?? ''
      const deleted = await start({}, { 'x-user': 'bob' })
      const { taskId } = await members(deleted)
      await ended(tasks, String(taskId))
      await tasks.delete(String(taskId))
      const anonymous = (await start()).headers.get('location') ?? ''
      const paths = [
        foreign,
        anonymous,
        deleted.headers.get('location') ?? '',
        '/api/status/AAAAAAAAAAAAAAAAAAAAAA',
        '/api/status/x',
        `/api/status/${'x'.repeat(500)}`,
        '/api/status/a%20b',
        '/api/status/%22',
        '/api/status/task:x',
        '/api/status/__proto__',
      ]
      const answers = new Set<string>()
      for (const path of paths) {
        for (const method of ['GET', 'DELETE']) {
          const response = await call(method, path, { headers: { 'x-user': 'bob' } })
          const headers = [...response.headers].filter(([name]) => name !== 'date').map(String).sort()
          answers.add(JSON.stringify([response.status, headers, await response.text()]))
        }
      }
      assert.equal(answers.size, 1, [...answers].join('\n'))
      assert.match([...answers][0] ?? '', /^\[404,.*task_not_found/)
      assert.equal((await call('GET', foreign)).status, 404, 'somebody who is nobody')
      assert.equal((await call('GET', foreign, { headers: { 'x-user': 'ann' } })).status, 200)
      assert.equal((await call('GET', anonymous)).status, 200)
    })

    test('are visible with owner: \'anyone\' only if they have no owner', async (t) => {
      const { call, tasks } = await site(t, binding, quick, { endpoints: { owner: 'anyone' } })
      const [anns, nobodys] = [await tasks.submit(quick, 1, { owner: 'ann' }), await tasks.submit(quick, 1)]
      assert.equal((await call('GET', `/api/status/${anns.taskId}`)).status, 404)
      assert.equal((await call('GET', `/api/status/${nobodys.taskId}`)).status, 200)
    })

    test('SPEC 7.6: show failed work as a 200 with error { code, message }, without a stack, and with unknown errors masked', async (t) => {
      for (const [thrown, error] of [
        [new Error('secret at /etc'), { code: 'task_failed', message: 'The task failed.' }],
        [new HttpError(422, 'no_role', { message: 'No such role.' }), { code: 'no_role', message: 'No such role.' }],
      ] as const) {
        const { call, start, tasks } = await site(
          t,
          binding,
          defineTask({
            name: 'broken',
            run: () => {
              throw thrown
            },
          }),
        )
        const { taskId } = await members(await start())
        await ended(tasks, String(taskId))
        const response = await call('GET', `/api/status/${String(taskId)}`)
        assert.equal(response.status, 200)
        const text = await response.text()
        const body = JSON.parse(text) as Record<string, unknown>
        assert.deepEqual([body['status'], body['error'], 'result' in body], ['failed', error, false])
        assert.doesNotMatch(text, /secret|stack|node_modules|\.ts/)
      }
    })

    test('SPEC 7.500: fail synchronously with the status of the HttpError, or with a masked 500', async (t) => {
      let thrown: unknown
      const { call, noise } = await site(
        t,
        binding,
        defineTask({
          name: 'broken',
          run: () => {
            throw thrown
          },
        }),
        { maxResultBytes: 100 },
      )
      for (const [error, status, body] of [
        [new Error('secret'), 500, { error: 'Something went wrong.', code: 'internal_error' }],
        ['secret', 500, { error: 'Something went wrong.', code: 'internal_error' }],
        [undefined, 500, { error: 'Something went wrong.', code: 'internal_error' }],
        [
          httpError('conflict', { headers: { 'retry-after': '7' } }),
          409,
          { error: 'The request conflicts with the current state.', code: 'conflict' },
        ],
      ] as const) {
        thrown = error
        const response = await call('POST', '/api/work', { body: {} })
        assert.equal(response.status, status)
        assert.deepEqual(await members(response), body)
        assert.equal(response.headers.get('retry-after'), status === 409 ? '7' : null)
      }
      assert.equal(noise.length, 3)
      const large = await site(t, binding, defineTask({ name: 'large', run: () => 'x'.repeat(200) }), {
        maxResultBytes: 100,
      })
      const response = await large.call('POST', '/api/work', { body: {} })
      assert.deepEqual([response.status, (await members(response))['code']], [500, 'result_too_large'])
    })

    test('SPEC 7.400, 7.422: get a 400 with pointers for schema failures and a 422 for business rules, before they are accepted', async (t) => {
      const strict = defineTask({
        name: 'strict',
        input: jsonSchema<{ role: string }>({
          type: 'object',
          required: ['role'],
          properties: { role: { type: 'string' } },
        }),
        check: ({ role }) => {
          if (role === 'king') throw httpError('unprocessable', { message: 'No such role.' })
        },
        run: () => ({ message: 'done' }),
      })
      const { call, spy } = await site(t, binding, strict)
      for (const headers of [
        {},
        { prefer: 'respond-async' },
        { 'prefer': 'respond-async', 'idempotency-key': 'k' },
      ] as Record<string, string>[]) {
        for (const [body, status, code] of [
          [{}, 400, 'invalid_input'],
          [{ role: 5 }, 400, 'invalid_input'],
          [{ role: 'king' }, 422, 'unprocessable'],
        ] as const) {
          const response = await call('POST', '/api/work', { body, headers })
          const answer = await members(response)
          assert.deepEqual([response.status, answer['code']], [status, code])
          if (status === 400) assert.ok(Array.isArray(answer['details']))
        }
        const malformed = await call('POST', '/api/work', {
          headers: { ...headers, 'content-type': 'application/json' },
        })
        assert.deepEqual([malformed.status, (await members(malformed))['code']], [400, 'missing_body'])
      }
      assert.deepEqual(spy.writes, [])
    })

    test('have the value of emptyBody as input if the body is empty', async (t) => {
      const echo = defineTask({ name: 'echo', run: (input) => ({ message: JSON.stringify(input) }) })
      const { call } = await site(t, binding, echo, { submit: { emptyBody: { all: true } } })
      assert.deepEqual(await members(await call('POST', '/api/work')), { message: '{"all":true}' })
      assert.equal((await call('POST', '/api/other')).status, 400)
    })

    test('get a 413 for a body that is too large, and a 503 for a full queue', async (t) => {
      const { gate, work } = gated()
      const { start } = await site(t, binding, work, { maxInputBytes: 50, concurrency: 1, maxUnfinished: 2 })
      const large = await start({ text: 'x'.repeat(100) })
      assert.deepEqual([large.status, (await members(large))['code']], [413, 'body_too_large'])
      assert.equal((await start()).status, 202)
      assert.equal((await start()).status, 202)
      const full = await start()
      assert.deepEqual(
        [full.status, full.headers.get('retry-after'), (await members(full))['code']],
        [503, '1', 'queue_full'],
      )
      gate.resolve()
    })

    test('return the result or the failure of their one run with respond-async, wait=N, and the status path', async (t) => {
      let runs = 0
      const work = defineTask({
        name: 'work',
        run: ({ fail }: { fail?: boolean }) => {
          runs++
          if (fail) throw httpError('conflict')
          return { message: 'in time' }
        },
      })
      const { start, call, tasks } = await site(t, binding, work)
      const response = await start({}, { prefer: 'respond-async, wait=20' })
      assert.deepEqual([response.status, response.headers.get('preference-applied')], [200, 'wait=20'])
      assert.deepEqual(await members(response), { message: 'in time' })
      const shown = await members(await call('GET', response.headers.get('location') ?? ''))
      assert.deepEqual([shown['status'], shown['result']], ['completed', { message: 'in time' }])
      assert.equal(runs, 1)
      const failed = await start({ fail: true }, { prefer: 'respond-async, wait=20' })
      assert.deepEqual([failed.status, (await members(failed))['code']], [409, 'conflict'])
      assert.equal((await members(await call('GET', failed.headers.get('location') ?? '')))['status'], 'failed')
      assert.equal(runs, 2)
      assert.equal(coreOf(tasks).waiters.size, 0)
    })

    test('get a 202 with the current status when wait=N is over, and the same run continues', async (t) => {
      const gate = deferred()
      let runs = 0
      const work = defineTask({
        name: 'work',
        run: async (_, { progress }) => {
          runs++
          progress(1, 2)
          await gate.promise
          return { message: 'late' }
        },
      })
      const { start, call, tasks } = await site(t, binding, work, { endpoints: { maxWaitSeconds: 0.1 } })
      const response = await start({}, { prefer: 'respond-async, wait=5' })
      assert.deepEqual([response.status, response.headers.get('preference-applied')], [202, 'respond-async, wait=0.1'])
      const path = response.headers.get('location') ?? ''
      const body = await members(response)
      assert.deepEqual(body, await members(await call('GET', path)))
      assert.deepEqual(body['progress'], { done: 1, total: 2 })
      gate.resolve()
      assert.deepEqual((await ended(tasks, String(body['taskId']))).result, { message: 'late' })
      assert.equal(runs, 1)
    })

    test('do not wait for requests above maxWaiters', async (t) => {
      const { gate, work } = gated()
      const { start, call, tasks } = await site(t, binding, work, { maxWaiters: 0 })
      const response = await within(start({}, { prefer: 'respond-async, wait=20' }))
      assert.equal(response.status, 202)
      const path = response.headers.get('location') ?? ''
      const poll = await within(call('GET', path, { headers: { prefer: 'wait=20' } }))
      assert.deepEqual([poll.status, poll.headers.get('preference-applied')], [200, null])
      const events = await call('GET', path, { headers: { accept: 'text/event-stream' } })
      assert.deepEqual([events.status, events.headers.get('retry-after')], [503, '5'])
      assert.equal(coreOf(tasks).waiters.size, 0)
      gate.resolve()
    })

    test('give one caller no more than its share of waiting requests', async (t) => {
      const { gate, work } = gated()
      const { start, call, tasks } = await site(t, binding, work, {
        maxWaiters: 100, maxWaitersPerOwner: 2, endpoints: { owner: ({ headers }) => String(headers['x-user']) },
      })
      const paths = new Map<string, string>()
      for (const user of ['ann', 'ben'])
        paths.set(user, (await start({}, { 'x-user': user })).headers.get('location') ?? '')
      const leave = new AbortController()
      const open = (user: string) =>
        call('GET', paths.get(user) ?? '', {
          headers: { 'x-user': user, 'accept': 'text/event-stream' },
          signal: leave.signal,
        })
      for (let at = 0; at < 2; at++) assert.equal((await open('ann')).status, 200)
      const refused = await open('ann')
      assert.deepEqual(
        [refused.status, refused.headers.get('retry-after'), (await members(refused))['code']],
        [429, '5', 'too_many_requests'],
      )
      const poll = await within(
        call('GET', paths.get('ann') ?? '', { headers: { 'x-user': 'ann', 'prefer': 'wait=20' } }),
      )
      assert.deepEqual([poll.status, poll.headers.get('preference-applied')], [200, null])
      const waiting = await within(start({}, { 'x-user': 'ann', 'prefer': 'respond-async, wait=20' }))
      assert.equal(waiting.status, 202)
      assert.equal((await open('ben')).status, 200)
      assert.equal(coreOf(tasks).waiters.size, 3)
      leave.abort()
      await eventually(() => coreOf(tasks).waiters.size === 0)
      assert.equal(
        (await call('GET', paths.get('ann') ?? '', { headers: { 'x-user': 'ann', 'accept': 'text/event-stream' } }))
          .status,
        200,
      )
      gate.resolve()
    })

    test('count clients without an owner by their address', async (t) => {
      const { gate, work } = gated()
      const { start, call } = await site(t, binding, work, { maxWaitersPerOwner: 1, endpoints: { owner: 'anyone' } })
      const path = (await start()).headers.get('location') ?? ''
      const leave = new AbortController()
      const open = () => call('GET', path, { headers: { accept: 'text/event-stream' }, signal: leave.signal })
      assert.deepEqual([(await open()).status, (await open()).status], [200, 429])
      leave.abort()
      gate.resolve()
    })

    test('abort a synchronous run that takes too long, with a 503 without Retry-After because part of the work may have been done', async (t) => {
      const { work, signals } = gated()
      const { call } = await site(t, binding, work, { endpoints: { syncTimeoutMs: 30 } })
      const response = await call('POST', '/api/work', { body: {} })
      assert.deepEqual(
        [response.status, response.headers.get('retry-after'), (await members(response))['code']],
        [503, null, 'sync_timeout'],
      )
      assert.equal(signals[0]?.aborted, true)
      const own = await site(
        t,
        binding,
        defineTask({ name: 'own', timeoutMs: 20, run: () => new Promise(() => undefined) }),
      )
      const answer = await own.call('POST', '/api/work', { body: {} })
      assert.deepEqual([answer.status, (await members(answer))['code']], [504, 'task_timeout'])
    })

    test('end after a cancel, if queued or running, with an aborted signal, and a repeated cancel gets the same response', async (t) => {
      const { gate, work, signals, runs } = gated()
      const { start, call, tasks } = await site(t, binding, work, { concurrency: 1 })
      const running = (await start()).headers.get('location') ?? ''
      await eventually(() => runs.length === 1)
      const queued = (await start()).headers.get('location') ?? ''
      for (const path of [queued, running]) {
        const response = await call('DELETE', path)
        assert.equal(response.status, 200)
        const body = await members(response)
        assert.equal(body['status'], 'cancelled')
        assert.equal(response.headers.get('retry-after'), null)
        const shown = await call('GET', path)
        assert.equal(shown.headers.get('etag'), response.headers.get('etag'))
        assert.deepEqual(await members(shown), body)
        const again = await call('DELETE', path)
        assert.deepEqual([again.status, await members(again)], [200, body])
      }
      assert.equal(signals[0]?.aborted, true)
      gate.resolve()
      await eventually(async () => (await tasks.health()).running === 0)
      assert.equal(runs.length, 1)
    })

    test('get a 503 with Retry-After and without details if the store fails', async (t) => {
      const { start, call, spy, noise } = await site(t, binding, quick)
      spy.fault = () => 'before'
      for (const response of [
        await start(),
        await start({}, { 'idempotency-key': 'k' }),
        await call('GET', '/api/status/x'),
        await call('DELETE', '/api/status/x'),
      ]) {
        assert.deepEqual([response.status, response.headers.get('retry-after')], [503, '5'])
        assert.deepEqual(await members(response), {
          error: 'The service is not available now.',
          code: 'store_unavailable',
        })
      }
      assert.equal(noise.length, 4)
      assert.equal((await call('POST', '/api/work', { body: {} })).status, 200, 'direct work needs no store')
    })
  })
}
