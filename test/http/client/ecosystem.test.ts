// What others wrote reads what we send: the eventsource package, and jq.
import assert from 'node:assert/strict'
import { describe, test } from 'node:test'
import { EventSource, type FetchLike } from 'eventsource'
import { defineTask } from '../../../src/tasks/definition/define.js'
import { TcpProxy } from '../../servers/tcp-proxy.js'
import { jq } from './jq.js'
import { useReference } from '../kit/reference.js'
import { members, site } from '../kit/tasks.js'
import { coreOf } from '../../../src/tasks/tasks.js'
import { deferred, eventually, within } from '../../kit/wait.js'

/** Connecting again takes the two seconds of `retry`, and more on a busy machine. */
const PATIENCE_MS = 30_000

describe('the eventsource package', () => {
  test('SPEC 6.2: reconnects a cut connection with Last-Event-ID, gets each event once, and stops after the end', async (t) => {
    const steps = [deferred(), deferred(), deferred()]
    const work = defineTask({
      name: 'stepped',
      run: async (_, { progress }) => {
        for (const [at, step] of steps.entries()) {
          progress(at, 3)
          await step.promise
        }
        return { message: 'done' }
      },
    })
    const { start, call, port, tasks } = await site(t, 'node', work)
    const { taskId } = await members(await start())
    const path = `/api/status/${String(taskId)}`
    const proxy = await TcpProxy.to(port)
    t.after(() => {
      proxy.close()
    })

    const asked: (string | undefined)[] = []
    const answered: number[] = []
    const spied: FetchLike = async (url, init) => {
      asked.push(new Headers(init.headers).get('last-event-id') ?? undefined)
      const response = await fetch(url, init)
      answered.push(response.status)
      return response
    }
    const source = new EventSource(`http://127.0.0.1:${String(proxy.port)}${path}`, { fetch: spied })
    t.after(() => {
      source.close()
    })
    const ids: string[] = []
    const bodies: Record<string, unknown>[] = []
    source.addEventListener('message', ({ lastEventId, data }) => {
      ids.push(lastEventId)
      bodies.push(JSON.parse(data) as Record<string, unknown>)
    })
    const closed = deferred()
    source.addEventListener('error', () => {
      if (source.readyState === source.CLOSED) closed.resolve()
    })
    const done = (): unknown => (bodies.at(-1)?.['progress'] as { done: number } | undefined)?.done

    await eventually(() => done() === 0, PATIENCE_MS)
    proxy.swallow()
    proxy.heal()
    // While nobody listens, it goes on.
    steps[0]?.resolve()
    await eventually(
      async () => ((await members(await call('GET', path)))['progress'] as { done: number }).done === 1,
      PATIENCE_MS,
    )
    await eventually(() => done() === 1, PATIENCE_MS)
    assert.equal(asked.length, 2)
    assert.equal(asked[0], undefined)
    assert.ok(ids.includes(asked[1] ?? ''), 'it says which event it has')

    // Cut while nothing changes: the state that it has is not sent again.
    const before = ids.length
    proxy.swallow()
    proxy.heal()
    await eventually(() => answered.length === 3, PATIENCE_MS)
    steps[1]?.resolve()
    steps[2]?.resolve()
    await within(closed.promise, PATIENCE_MS)
    assert.ok(ids.length > before)
    assert.equal(new Set(ids).size, ids.length, 'an event came twice')
    assert.deepEqual([bodies.at(-1)?.['status'], bodies.at(-1)?.['result']], ['completed', { message: 'done' }])
    assert.deepEqual(answered, [200, 200, 200, 204])
    assert.equal(asked.at(-1), ids.at(-1))
    assert.equal(coreOf(tasks).waiters.size, 0)
  })
})

describe('jq', () => {
  const client = useReference()

  test('SPEC 4.9, 4.9.format.2: reads GET /bulk-data as records, one per line', async () => {
    const { text } = await client.ask('GET', '/bulk-data', { token: 'reader-1' })
    const lines = text.split('\n').length - 1
    assert.ok(lines >= 1000)
    assert.equal(await jq(text, '[inputs | .id | numbers] | length', '-n'), String(lines))
    assert.equal(await jq(text, '[inputs | fromjson | objects] | length', '-n', '-R'), String(lines))
  })

  test('SPEC 4.9: sends output that the server accepts, and reads the report', async () => {
    const { text } = await client.ask('GET', '/bulk-data')
    const changed = await jq(text, 'select(.id <= 3) | {id, name: ("Dr. " + .name)}')
    const answer = await client.ask('POST', '/upload-ndjson', {
      body: changed, headers: { 'content-type': 'application/x-ndjson', 'accept': 'application/x-ndjson' },
    })
    assert.equal(await jq(answer.text, '.summary // empty | [.total, .succeeded, .failed]'), '[3,3,0]')
    const { text: now } = await client.ask('GET', '/bulk-data')
    assert.equal(await jq(now, 'select(.name | startswith("Dr. ")) | .id'), '1\n2\n3')
  })

  test('SPEC 4.9: reads the same records as one JSON array', async () => {
    const { text } = await client.ask('GET', '/bulk-data', { headers: { accept: 'application/json' } })
    assert.equal(await jq(text, 'type, (length >= 1000)'), '"array"\ntrue')
  })
})
