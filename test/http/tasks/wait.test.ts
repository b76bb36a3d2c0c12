import assert from 'node:assert/strict'
import { get, type IncomingMessage } from 'node:http'
import { describe, test, type TestContext } from 'node:test'
import { EventSource } from 'eventsource'
import { defineTask } from '../../../src/tasks/definition/define.js'
import { ended } from '../../unit/kit/tasks.js'
import { BINDINGS, eventsOf, members, site } from '../kit/tasks.js'
import { coreOf } from '../../../src/tasks/tasks.js'
import { deferred, eventually, within } from '../../kit/wait.js'

/** Work in steps that the test takes. */
function stepped() {
  const steps = [deferred(), deferred()]
  const work = defineTask({
    name: 'stepped', run: async (_, { progress }) => {
      await steps[0]?.promise
      progress(1, 2)
      await steps[1]?.promise
      return { message: 'done' }
    },
  })
  return { work, step: (n: number) => { steps[n]?.resolve() } }
}

/** Waiting requests wake by notices alone, and not by reading again at intervals. */
function byNoticesAlone(t: TestContext): void {
  const real = setInterval
  t.mock.method(globalThis, 'setInterval', (work: () => void, ms: number) => real(work, ms === 3000 ? 600_000 : ms))
}

for (const binding of BINDINGS) {
  describe(`waiting clients over ${binding}`, () => {
    test('report a failed task once, however many requests and replays wait for it', async (t) => {
      const work = defineTask({ name: 'work', run: () => { throw new Error('The printer is away') } })
      const { start, heard, noise } = await site(t, binding, work)
      for (let n = 0; n < 5; n++) {
        const response = await start({}, { 'prefer': 'respond-async, wait=10', 'idempotency-key': 'one' })
        const { code } = await response.json() as { code: string }
        assert.deepEqual([response.status, code], [500, 'task_failed'])
        assert.match(response.headers.get('preference-applied') ?? '', /wait=10/)
      }
      assert.deepEqual([heard.map(String), noise], [['Error: The printer is away'], []])
    })

    test('get the response to a long poll without If-None-Match at the final state, at once when the task changes', async (t) => {
      byNoticesAlone(t)
      const { work, step } = stepped()
      const { start, call, engine, tasks, spy } = await site(t, binding, work)
      const path = (await start()).headers.get('location') ?? ''
      const polling = call('GET', path, { headers: { prefer: 'wait=20' } })
      await eventually(() => engine.usage().watches === 1)
      step(0)
      await eventually(async () => (await members(await call('GET', path)))['progress'] !== undefined)
      step(1)
      const response = await within(polling)
      assert.equal(response.status, 200)
      assert.equal(response.headers.get('preference-applied'), 'wait=20')
      assert.equal((await members(response))['status'], 'completed')
      assert.deepEqual([coreOf(tasks).waiters.size, engine.usage().watches], [0, 0])
      assert.ok(spy.calls.filter((name) => name.startsWith('watch')).length === 1)
    })

    test('get the response to a long poll with If-None-Match once the tag differs', async (t) => {
      byNoticesAlone(t)
      const { work, step } = stepped()
      const { start, call, engine, tasks } = await site(t, binding, work)
      const { taskId } = await members(await start())
      const path = `/api/status/${String(taskId)}`
      await eventually(async () => (await coreOf(tasks).read(String(taskId)))?.status === 'processing')
      const etag = (await call('GET', path)).headers.get('etag') ?? ''
      const polling = call('GET', path, { headers: { 'prefer': 'wait=20', 'if-none-match': etag } })
      await eventually(() => engine.usage().watches === 1)
      step(0)
      const response = await within(polling)
      assert.notEqual(response.headers.get('etag'), etag)
      assert.deepEqual((await members(response))['progress'], { done: 1, total: 2 })
      const stale = await within(call('GET', path, { headers: { 'prefer': 'wait=20', 'if-none-match': etag } }))
      assert.equal(stale.status, 200, 'a tag that differs already is answered at once')
      step(1)
      await ended(tasks, String(taskId))
      const last = (await call('GET', path)).headers.get('etag') ?? ''
      const final = await within(call('GET', path, { headers: { 'prefer': 'wait=20', 'if-none-match': last } }))
      assert.equal(final.status, 304, 'what is final is not waited for')
    })

    test('get a 304 with a tag, and a 200 without a tag, when the longest wait of a long poll is over', async (t) => {
      const { work } = stepped()
      const { start, call, tasks } = await site(t, binding, work, { endpoints: { maxWaitSeconds: 0.1 } })
      const { taskId } = await members(await start())
      const path = `/api/status/${String(taskId)}`
      await eventually(async () => (await coreOf(tasks).read(String(taskId)))?.status === 'processing')
      const etag = (await call('GET', path)).headers.get('etag') ?? ''
      const at = Date.now()
      const [tagged, plain] = await within(
        Promise.all([
          call('GET', path, { headers: { 'prefer': 'wait=100', 'if-none-match': etag } }),
          call('GET', path, { headers: { prefer: 'wait=100' } }),
        ]),
      )
      assert.ok(Date.now() - at >= 90)
      assert.deepEqual([tagged.status, tagged.headers.get('preference-applied')], [304, 'wait=0.1'])
      assert.deepEqual([plain.status, plain.headers.get('preference-applied')], [200, 'wait=0.1'])
      for (const prefer of ['wait=0', 'wait=x', 'wait', 'respond-async']) {
        const response = await call('GET', path, { headers: { prefer } })
        assert.deepEqual([response.status, response.headers.get('preference-applied')], [200, null])
      }
      assert.equal(coreOf(tasks).waiters.size, 0)
    })

    test('get a 404 for a long poll if the task expires', async (t) => {
      const { work } = stepped()
      const { start, call, tasks } = await site(t, binding, work, { worker: false, pendingMs: 1000 })
      const { taskId } = await members(await start())
      const polling = call('GET', `/api/status/${String(taskId)}`, { headers: { prefer: 'wait=20' } })
      assert.equal((await within(polling)).status, 404)
      assert.equal(coreOf(tasks).waiters.size, 0)
    })

    test('get their responses at a close, and event streams end', async (t) => {
      const { work } = stepped()
      const { start, call, tasks } = await site(t, binding, work)
      const path = (await start()).headers.get('location') ?? ''
      const polling = call('GET', path, { headers: { prefer: 'wait=20' } })
      const stream = await call('GET', path, { headers: { accept: 'text/event-stream' } })
      await eventually(() => coreOf(tasks).waiters.size === 2)
      void tasks.close({ drainMs: 10 })
      assert.deepEqual((await members(await within(polling)))['error'], {
        code: 'task_interrupted',
        message: 'The process that ran this task stopped or crashed.',
      })
      for await (const event of eventsOf(stream)) assert.ok(event)
      assert.equal(coreOf(tasks).waiters.size, 0)
    })

    test('get their responses when a process without a worker closes', async (t) => {
      const { work } = stepped()
      const { start, call, tasks } = await site(t, binding, work, { worker: false })
      const path = (await start()).headers.get('location') ?? ''
      const polling = call('GET', path, { headers: { prefer: 'wait=20' } })
      await eventually(() => coreOf(tasks).waiters.size === 1)
      await tasks.close()
      assert.equal((await members(await within(polling)))['status'], 'processing')
      const late = await within(call('GET', path, { headers: { prefer: 'wait=20' } }))
      assert.deepEqual([late.status, late.headers.get('preference-applied')], [200, null])
    })

    test(
      'get events with id, retry and every change, until the final state ends the stream',
      { timeout: 60_000 },
      async (t) => {
        byNoticesAlone(t)
        const { work, step } = stepped()
        const { start, call, tasks, engine } = await site(t, binding, work)
        const { taskId } = await members(await start())
        await eventually(async () => (await coreOf(tasks).read(String(taskId)))?.status === 'processing')
        const response = await call('GET', `/api/status/${String(taskId)}`, {
          headers: { accept: 'text/event-stream' },
        })
        assert.deepEqual(
          [response.status, response.headers.get('content-type'), response.headers.get('cache-control')],
          [200, 'text/event-stream; charset=utf-8', 'no-store, no-transform'],
        )
        const seen: Record<string, unknown>[] = []
        const ids: string[] = []
        let retry: string | undefined
        for await (const event of eventsOf(response)) {
          retry ??= event['retry']
          if (event['data'] === undefined) continue
          ids.push(event['id'] ?? '')
          const data = JSON.parse(event['data']) as Record<string, unknown>
          seen.push(data)
          if (data['progress'] === undefined) step(0)
          else step(1)
        }
        assert.equal(retry, '2000')
        assert.deepEqual(
          seen.map(({ status, progress }) => [status, progress]),
          [
            ['processing', undefined],
            ['processing', { done: 1, total: 2 }],
            ['completed', { done: 1, total: 2 }],
          ],
        )
        assert.deepEqual(seen.at(-1), JSON.parse(JSON.stringify(await tasks.get(String(taskId)))))
        assert.equal(new Set(ids).size, 3)
        assert.ok(ids.every((id) => /^[^\s"]+$/.test(id)))
        await eventually(() => coreOf(tasks).waiters.size === 0 && engine.usage().watches === 0)
      },
    )

    test('get the events after Last-Event-ID, and a 204 for the final id', async (t) => {
      const { work, step } = stepped()
      const { start, call, tasks } = await site(t, binding, work)
      const { taskId } = await members(await start())
      const path = `/api/status/${String(taskId)}`
      await eventually(async () => (await coreOf(tasks).read(String(taskId)))?.status === 'processing')
      const read = async (lastEventId?: string) => {
        const response = await call('GET', path, {
          headers: {
            accept: 'text/event-stream',
            ...(lastEventId === undefined ? {} : { 'last-event-id': lastEventId }),
          },
        })
        return { response, events: eventsOf(response) }
      }
      const next = async (events: AsyncGenerator<Record<string, string>>) => {
        for (;;) {
          const step = await within(events.next())
          if (step.done) return undefined
          if (step.value['data'] !== undefined) return step.value
        }
      }
      const first = await read()
      const event = await next(first.events)
      await first.events.return(undefined)
      const second = await read(event?.['id'])
      step(0)
      assert.match((await next(second.events))?.['data'] ?? '', /"progress"/, 'what the client has does not come again')
      step(1)
      const final = await next(second.events)
      assert.match(final?.['data'] ?? '', /"completed"/)
      assert.equal(await next(second.events), undefined)
      const third = await read(event?.['id'])
      assert.equal((await next(third.events))?.['id'], final?.['id'], 'missed the end: gets it')
      assert.equal(await next(third.events), undefined)
      const { response } = await read(final?.['id'])
      assert.equal(response.status, 204)
      await eventually(() => coreOf(tasks).waiters.size === 0)
    })

    test('get events only if they accept them', async (t) => {
      const { work } = stepped()
      const { start, call, tasks } = await site(t, binding, work)
      const path = (await start()).headers.get('location') ?? ''
      for (const accept of [
        '*/*', 'application/json', 'application/json, text/event-stream', 'text/html',
        'text/event-stream;q=0.5, application/json', 'text/event-stream;q=0',
      ]) {
        await members(await call('GET', path, { headers: { accept } }))
      }
      const head = await call('HEAD', path, { headers: { accept: 'text/event-stream' } })
      assert.equal(head.headers.get('content-type'), 'application/json')
      assert.equal(coreOf(tasks).waiters.size, 0)
      assert.equal((await call('GET', '/api/status/x', { headers: { accept: 'text/event-stream' } })).status, 404)
    })

    test('release their place when they disconnect from a stream', async (t) => {
      const { work } = stepped()
      const { start, call, tasks, engine, noise } = await site(t, binding, work)
      const path = (await start()).headers.get('location') ?? ''
      for (const when of ['unread', 'after the first event'] as const) {
        const controller = new AbortController()
        const response = await call('GET', path, {
          headers: { accept: 'text/event-stream' },
          signal: controller.signal,
        })
        await eventually(() => coreOf(tasks).waiters.size === 1)
        if (when !== 'unread') {
          const events = eventsOf(response)
          await events.next()
          await events.next()
          await events.return(undefined)
        } else await response.body?.cancel()
        await eventually(() => coreOf(tasks).waiters.size === 0 && engine.usage().watches === 0)
      }
      assert.deepEqual(noise, [])
    })
  })
}

describe('events over a real connection', () => {
  test('are read by EventSource, which stops at the end', async (t) => {
    const { work, step } = stepped()
    const { start, port, tasks } = await site(t, 'node', work)
    const { taskId } = await members(await start())
    const source = new EventSource(`http://127.0.0.1:${String(port)}/api/status/${String(taskId)}`)
    t.after(() => { source.close() })
    const last = deferred<Record<string, unknown>>()
    let first = true
    source.onmessage = ({ data }) => {
      const body = JSON.parse(data as string) as Record<string, unknown>
      if (first) {
        step(0)
        step(1)
      }
      first = false
      if (body['status'] === 'completed') last.resolve(body)
    }
    assert.deepEqual((await within(last.promise))['result'], { message: 'done' })
    const stopped = deferred()
    source.onerror = () => { if (source.readyState === source.CLOSED) stopped.resolve() }
    await within(stopped.promise)
    assert.equal(coreOf(tasks).waiters.size, 0)
  })

  test('begin with the headers at once, and send a heartbeat while nothing happens', async (t) => {
    const { work } = stepped()
    const { start, port } = await site(t, 'node', work)
    const path = (await start()).headers.get('location') ?? ''
    const real = setTimeout
    t.mock.method(globalThis, 'setTimeout', (work: () => void, ms: number) => real(work, ms === 15_000 ? 50 : ms))
    const answer = deferred<IncomingMessage>()
    const request = get({ port, host: '127.0.0.1', path, headers: { accept: 'text/event-stream' } }, answer.resolve)
    t.after(() => { request.destroy() })
    const response = await within(answer.promise)
    let text = ''
    response.setEncoding('utf8').on('data', (chunk: string) => { text += chunk }).on('error', () => undefined)
    await eventually(() => text.includes('data: '))
    await eventually(() => text.split(': still here\n\n').length > 2, 30_000)
  })
})
